"""Programs in files: format, encoding, and checks of files."""
