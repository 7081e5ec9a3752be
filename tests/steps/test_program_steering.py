"""Comparisons, logic and choices of programs: their expressions are NumPy's functions."""

import itertools

import numpy as np
import pytest
import rows
import special_rows

import tapegrad as tg
from tapegrad._core.ops.elementwise import STEERING
from tapegrad._core.ops.table import BY_CODE, TABLE, users_name
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
LARGEST = 1.7976931348623157e308
POINTWISE = {name: op for name, op in STEERING.items() if special_rows.is_ordinary(op)}
SCOPE = {"np": rows.NUMPY, "select": np.where}
#: Operations with an exponential, of which NumPy's may differ in the last bit.
ROUNDED = ("tanh_slope", "sigmoid_slope")
#: Values and slopes of the operations that choose.
CHOICES = {
    "keep_where": (lambda x, y: np.where(x != 0, y, -0.0), lambda x, y: [0 * x, x != 0]),
    "drop_where": (lambda x, y: np.where(x == 0, y, -0.0), lambda x, y: [0 * x, x == 0]),
    "times": (
        lambda x, y: np.where(x == 0, 0.0, x * y),
        lambda x, y: [np.where((x == 0) & ~np.isfinite(y), 0.0, y), x],
    ),
    "masked": (np.multiply, lambda x, y: [np.where(y != 0, y, 0.0), 0 * x]),
    "weighted": (
        lambda x, y: np.where(x == 0, 0.0, x * y),
        lambda x, y: [y, np.where(x != 0, x, 0.0)],
    ),
    "index": (
        lambda x, y: np.where((-y <= x) & (x < y), np.where(x < 0, x + y, x), -LARGEST),
        lambda x, y: [0 * x, 0 * y],
    ),
    "tanh_slope": (rows.tanh_slope, lambda x, y: [-2.0 * y * rows.tanh_slope(x, y), 0 * x]),
    "sigmoid_slope": (
        rows.sigmoid_slope,
        lambda x, y: [(1.0 - 2.0 * y) * rows.sigmoid_slope(x, y), 0 * x],
    ),
}


def cases(op):
    return [
        np.array(x) for x in zip(*itertools.product(NUMBERS, repeat=len(op.inputs)), strict=True)
    ]


@pytest.mark.parametrize("op", POINTWISE.values(), ids=POINTWISE)
def test_values_are_numpys(op):
    inputs = cases(op)
    with np.errstate(all="ignore"):
        of_numpy = CHOICES[op.name][0] if op.name in CHOICES else getattr(np, op.numpy[6:])
        wanted = of_numpy(*inputs).astype(float)
        given = dict(zip(op.inputs, inputs, strict=True))
        np.testing.assert_array_equal(eval(op.value, SCOPE, given), wanted)
    out = np.empty_like(wanted)
    arguments = np.array([x.ctypes.data for x in (*inputs, out)])
    callable_value(op)(len(out), arguments.ctypes.data)
    np.testing.assert_allclose(out, wanted, rtol=1e-15 if op.name in ROUNDED else 0.0, atol=0.0)
    if op.name in CHOICES:  # which are added up, where the sign of 0 counts
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(out)[numbers], np.signbit(wanted)[numbers])


def test_they_have_codes_and_those_that_do_not_choose_no_derivative():
    for name, op in STEERING.items():
        assert BY_CODE[op.code] is op and op.name == name not in TABLE
        if name not in CHOICES and name not in special_rows.NAMES:
            assert set(op.partials) == {"0.0"} if name in POINTWISE else op.adjoint is None
        assert users_name(name) == f"{name}_2"


@pytest.mark.parametrize("name", CHOICES)
def test_slopes_of_choices(name):
    op = STEERING[name]
    inputs = np.array(cases(op))
    with np.errstate(all="ignore"):
        wanted = CHOICES[name][1](*inputs)
        given = dict(zip(op.inputs, inputs, strict=True))
        given["out"] = CHOICES[name][0](*inputs)
        found = [eval(slope, SCOPE, given) for slope in op.partials]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(
            np.broadcast_to(one, other.shape)[~np.isnan(other)], other[~np.isnan(other)]
        )


def test_a_choice_is_the_sum_of_what_is_kept_and_dropped():
    x, y = cases(STEERING["keep_where"])
    for c in (0.0, 1.0):
        parts = [
            CHOICES[name][0](np.float64(c), one)
            for name, one in zip(("keep_where", "drop_where"), (x, y), strict=True)
        ]
        np.testing.assert_array_equal(
            (parts[0] + parts[1]).view(np.int64), (x if c else y).view(np.int64)
        )


def test_eager_code_does_not_record_them():
    x = tg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    assert (x < 1.5).dtype == bool and rows.NAMES and not set(rows.NAMES) & set(STEERING)
