"""The recorded value: tensors, what they hold, operators, views and in-place writes."""
