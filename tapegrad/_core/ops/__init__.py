"""Floor 1: the table of operations. One operation, one declaration."""
