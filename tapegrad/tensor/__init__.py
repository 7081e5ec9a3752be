"""Floor 4: the recorded value. Operators, NumPy's functions, views and in-place writes."""
