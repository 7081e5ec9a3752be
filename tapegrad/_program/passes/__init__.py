"""Passes over steps: folding, common subexpressions, fusion, memory."""
