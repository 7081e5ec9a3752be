"""Comparisons and logic of programs: their expressions are NumPy's functions."""

import itertools

import numpy as np
import pytest
import rows

import tapegrad as tg
from tapegrad._core.ops.comparisons import STEERING
from tapegrad._core.ops.table import BY_CODE, TABLE
from tapegrad._core.sweep.kernels import callable_value

NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.5,
    np.nan,
    -np.nan,
    np.inf,
    -np.inf,
    5e-324,
    1.7976931348623157e308,
    -1e308,
]
SCOPE = {"np": np, "select": np.where}


def cases(op):
    return [
        np.array(x) for x in zip(*itertools.product(NUMBERS, repeat=len(op.inputs)), strict=True)
    ]


@pytest.mark.parametrize("op", STEERING.values(), ids=STEERING)
def test_values_are_numpys(op):
    inputs = cases(op)
    wanted = getattr(np, op.numpy.removeprefix("numpy."))(*inputs).astype(float)
    with np.errstate(all="ignore"):
        given = dict(zip(op.inputs, inputs, strict=True))
        np.testing.assert_array_equal(eval(op.value, SCOPE, given), wanted)
    out = np.empty_like(wanted)
    arguments = np.array([x.ctypes.data for x in (*inputs, out)])
    callable_value(op, 8)(len(out), arguments.ctypes.data)
    np.testing.assert_array_equal(out, wanted)


def test_they_have_codes_and_no_derivative():
    for name, op in STEERING.items():
        assert BY_CODE[op.code] is op and op.name == name not in TABLE
        assert set(op.slopes) == {"0.0"}


def test_eager_code_does_not_record_them():
    x = tg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    assert (x < 1.5).dtype == bool and rows.NAMES and not set(rows.NAMES) & set(STEERING)
