"""Benchmarks: the modules for asv, and peers.py, which compares with other systems."""
