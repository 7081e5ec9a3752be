"""Compiled code that appends rows: operators, index writes, calls from Python."""
