"""A walk over SciPy's public names: each differentiates, or refuses recorded values by its name."""

import importlib
import inspect

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.scipy._forwarding import find_ours

MODULES = """
cluster cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg
linalg.interpolative ndimage optimize signal signal.windows sparse sparse.csgraph sparse.linalg
spatial spatial.distance spatial.transform special stats stats.contingency stats.mstats stats.qmc
""".split()
NAMES = [
    f"{module}.{name}"
    for module in MODULES
    for name in getattr(importlib.import_module(f"scipy.{module}"), "__all__", ())
]


def theirs(name):
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"scipy.{module}"), own)


def stand_in(name):
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"tapegrad.scipy.{module}"), own)


FUNCTIONS = [name for name in NAMES if inspect.isroutine(theirs(name))]
WITHOUT = [name for name in FUNCTIONS if find_ours(name) is None]


def test_the_walk_is_long():
    assert len(NAMES) > 1300 and len(FUNCTIONS) > 800


@pytest.mark.parametrize("name", WITHOUT)
def test_functions_without_derivative_refuse_by_name(name):
    with pytest.raises(tg.DerivativeLost, match=rf"^tapegrad: scipy\.{name}\(\)"):
        tg.grad(lambda x: np.sum(stand_in(name)(x)))(np.array([0.3, 0.5, 0.9]))
