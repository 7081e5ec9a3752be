"""Compiled functions held against the functions themselves."""

import contextlib
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._core.tensor.values import value_of
from tapegrad._program.dispatch.variants import Budget

#: Evaluations before native code, where the fixture `native_when_hot` is used.
HOT = 200


#: For tests of functions that count their calls: a warning says that this ends with their programs.
counts = pytest.mark.filterwarnings("ignore:.* changes .*, when it is recorded and compared")


def numbers(tree):
    return [np.asarray(value_of(leaf)) for _, leaf in tree_leaves(tree)]


def same(found, wanted, rtol=1e-12):
    """Equal structures, dtypes and shapes; numbers to rounding, or exactly with `rtol=0`."""
    found, wanted = numbers(found), numbers(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if rtol and a.dtype.kind == "f":
            largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * largest)
        else:
            np.testing.assert_array_equal(a, b)


def check(f, calls, rtol=1e-12, argnums=0, recorded=None, **options):
    """Value and gradient of a compiled function at each of some calls; returns it.

    `recorded` is how often it may be recorded.
    """
    c = tg.compile(f, argnums=argnums, **options)
    eager = tg.value_and_grad(f, argnums)
    for args in calls:
        same(c.value_and_grad(*args), eager(*args), rtol)
    assert c._reason is None
    if recorded is not None:
        assert programs(c) == recorded
    return c


def programs(c):
    """How many recordings a compiled function has made."""
    return sum(family.recorded for family in c._families.found.values())


def is_native(c):
    """Whether all programs, or graphs where there are none, have code of their own, or none has."""
    programs = {v.program.native for one in c._families.found.values() for v in one.found}
    (found,) = programs or {one.primal.life.state == "native" for one in c._flows.found.values()}
    return found


@contextlib.contextmanager
def unlimited():
    """Let each path be recorded and become a program at once, whatever that takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "is_there", lambda *_: True)
        patch.setattr(Budget, "is_worth", lambda *_: True)
        yield


def check_tiers(f, calls, argnums=0, rtol=1e-12, exact=False, recorded=None):
    """Value and gradient at each of some calls; with `exact` the values bit for bit."""
    eager = tg.value_and_grad(f, argnums)
    with unlimited(), np.errstate(all="ignore"):
        wanted = [eager(*args) for args in calls]
        for native in (False, True):
            c = tg.compile(f, argnums=argnums, native=native, verify="never")
            for args in calls:
                c.value_and_grad(*args)
            c.wait()
            assert c._reason is None and is_native(c) == native
            for args, (value, gradient) in zip(calls, wanted, strict=True):
                found = c.value_and_grad(*args)
                same(found[0], value, 0 if exact else rtol)
                same(found[1], gradient, rtol)
                same(c(*args), value, 0 if exact else rtol)
            assert recorded is None or programs(c) == recorded


def refused(f, calls, argnums=0, **options):
    """Check that a function is called as it is, with one warning; returns its text."""
    c = tg.compile(f, argnums=argnums, **options)
    eager = tg.value_and_grad(f, argnums)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for args in calls:
            same(c.value_and_grad(*args), eager(*args), 0)
    (warning,) = [w for w in caught if "without a program" in str(w.message)]
    assert warning.category is RuntimeWarning and warning.filename.endswith("compiled.py")
    return str(warning.message)


def normal(shape, count=6, seed=0):
    """Calls of one argument."""
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=shape),) if shape else (float(rng.normal()),) for _ in range(count)]


def by_ways(c):
    """A compiled function that reads no graph: each of its ways is recorded."""
    c._flows._set_aside += 1
    return c
