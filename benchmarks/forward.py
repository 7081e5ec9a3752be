"""What the tangent of one operation costs in forward mode."""

import tapegrad as tg
from benchmarks.figures import best, record


def track_scalar():
    """The tangent of a product or sum of two scalars: `jvp` with it less `jvp` without."""
    operations = 100_000

    def with_tangents():
        tg.jvp(lambda x: record(x, operations), (1.0,), (1.0,))

    def without():
        tg.jvp(lambda x: (record(x, operations), x)[1], (1.0,), (1.0,))

    with_tangents()
    return 1e9 * (best(with_tangents, 5) - best(without, 5)) / operations


track_scalar.unit = "ns"
