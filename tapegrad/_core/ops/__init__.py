"""The table of operations: declarations and compiled kernels."""
