"""Memory that a recorded operation holds."""

from benchmarks import figures


def track_bytes_per_scalar_node():
    """The growth of a fresh process per recorded scalar operation."""
    return figures.bytes_per_node("tapegrad", 2_000_000)


track_bytes_per_scalar_node.unit = "bytes"
