"""Compilation of generated code."""
