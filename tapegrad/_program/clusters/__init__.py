"""Sums over partitions that lie in other processes: Dask, executors, MPI."""
