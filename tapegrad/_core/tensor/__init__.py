"""The recorded value: tensors, their contents, operators, views and in-place writes."""
