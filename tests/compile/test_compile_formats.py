"""Formats, `int` and `round` in programs: guards on what Python learned, not on all digits."""

import warnings

import numpy as np
import pytest
from assumed import needs
from compiled import counts

import tapegrad as tg

START, CLOSE, FAR = np.array([0.5, 0.9]), np.array([0.50001, 0.9]), np.array([1.5, 0.9])


def formatted(x):
    return np.tanh(x).sum() * len(f"{np.tanh(x).sum():.2g}")


def shown(x):
    return x.sum() * len(f"{np.round(x * 10.0)}")


def percent(x):
    return x.sum() * len("%d" % (x[0] * 3.0))


def truncated(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x.sum() * int(x.sum() * 3.0)


def rounded(x):
    return x.sum() * round(x.sum() * 2.0)


@counts
@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize(
    "f",
    [formatted, shown, pytest.param(percent, marks=needs("cpython-bytecode")), truncated, rounded],
)
def test_programs_serve_all_values_of_one_text(f, tmp_path):
    calls = []

    def counted(x):
        calls.append(1)
        return f(x)

    c = tg.compile(counted, native=False, verify="never")
    for recordings, x in [(1, START), (1, START), (1, CLOSE), (2, FAR), (2, START), (2, FAR)]:
        value, gradient = c.value_and_grad(x)
        wanted, slopes = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-12)
        assert len(calls) <= recordings  # a graph serves other texts, too
    c.save(tmp_path / "program")
    loaded = tg.load(tmp_path / "program")
    for x in (FAR, START, CLOSE):
        np.testing.assert_allclose(loaded(x), tg.value_and_grad(f)(x)[0], rtol=1e-12)


def test_a_number_that_programs_round_otherwise_can_be_formatted():
    """The value of tanh differs in its last place from that of the library of C."""
    rng = np.random.default_rng(1)
    for x in rng.uniform(0.1, 0.9, (20, 3)):  # a warning says that a program takes another branch
        c = tg.compile(lambda x: np.sum(np.tanh(x)) * len(f"{np.tanh(x[0]):.4f}"), native=False)
        np.testing.assert_allclose(c(x), 6 * np.sum(np.tanh(x)), rtol=1e-12)
