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
#: By identities of functions, all their names, as `stats.gmean` and `stats.mstats.gmean`.
ALIASES: dict[int, list[str]] = {}
for _name in FUNCTIONS:
    ALIASES.setdefault(id(theirs(_name)), []).append(_name)
WITHOUT = [names[0] for names in ALIASES.values() if not any(map(find_ours, names))]


def test_the_walk_is_long():
    assert len(NAMES) > 1300 and len(FUNCTIONS) > 800


@pytest.mark.parametrize("name", WITHOUT)
def test_functions_without_derivative_refuse_by_name(name):
    names = "|".join(ALIASES[id(theirs(name))])
    with pytest.raises(tg.DerivativeLost, match=rf"^tapegrad: scipy\.({names})\(\)"):
        tg.grad(lambda x: np.sum(stand_in(name)(x)))(np.array([0.3, 0.5, 0.9]))
