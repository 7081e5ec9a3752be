"""Rows of a recording read as steps of a program."""
