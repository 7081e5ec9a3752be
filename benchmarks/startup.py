"""What a fresh process waits for."""

from benchmarks import figures


def track_import():
    """Importing tapegrad after NumPy."""
    return figures.import_time("tapegrad")


def track_first_gradient_warm():
    """A whole process with one gradient, the kernels being in the cache."""
    return figures.first_gradient(cold=False, times=5)


def track_first_gradient_after_import():
    """Processor time of that gradient alone, without the import."""
    return figures.first_gradient_after_import(times=5)


def track_first_gradient_cold():
    """A whole process with one gradient, the cache folder being empty."""
    return figures.first_gradient(cold=True, times=2)


def track_kernels(first):
    """Kernels that a process compiles in a fresh home, a count: it is the same on every machine."""
    return figures.kernels_compiled(figures.FIRST_USES[first])


track_kernels.unit, track_kernels.timeout = "kernels", 300
track_kernels.params, track_kernels.param_names = list(figures.FIRST_USES), ["first"]
track_import.unit = track_first_gradient_warm.unit = "seconds"
track_first_gradient_after_import.unit = track_first_gradient_cold.unit = "seconds"
track_first_gradient_cold.timeout = 300
