"""What it costs to record one operation from Python."""

from benchmarks import figures


def track_scalar():
    """A product or sum of two scalars."""
    return 1e9 * figures.scalar_costs("tapegrad", 100_000)[0]


def track_array(size):
    """A product or sum of two arrays of `size` numbers, its computation by NumPy included."""
    return 1e9 * figures.array_costs(size, 1000)[0]


track_scalar.unit = track_array.unit = "ns"
track_array.params = [10, 1000, 10_000]
track_array.param_names = ["size"]
