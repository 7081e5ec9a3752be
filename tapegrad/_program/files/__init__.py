"""Programs in files: format, encoding, and the checks of what is read."""
