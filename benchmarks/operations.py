"""What one row of each operation of the table costs, on an array of 1000 numbers."""

import tapegrad  # noqa: F401  (declares the rows)
from benchmarks import figures
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families

#: Functions of SciPy with an operand that has no derivative.
LEFT_OUT = [name for name, op in TABLE.items() if getattr(op, "refuses", False)]


def track_record(name):
    """Recording it from Python, its computation included."""
    return 1e9 * figures.operation_costs(name, 1000, 100)[0]


def track_reverse(name):
    """Its reverse step, the seed planted at its result included."""
    return 1e9 * figures.operation_costs(name, 1000, 100)[1]


track_record.unit = track_reverse.unit = "ns"
#: Parts of complex functions have no public names.
load_families()
NAMES = [name for name in TABLE if not name.startswith("complex_") and name not in LEFT_OUT]
track_record.params = track_reverse.params = NAMES
track_record.param_names = track_reverse.param_names = ["operation"]
