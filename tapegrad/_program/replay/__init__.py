"""Programs: recordings replayed in compiled code, values and adjoints."""
