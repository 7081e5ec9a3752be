"""Compilation of generated code. The only place that knows Numba's flags."""
