"""SciPy for recorded values: `from tapegrad.scipy import special, stats, linalg, …`.

The submodules have the names of SciPy's, and import SciPy's on first use. Functions with a
derivative here take recorded values. The others are SciPy's; given a recorded value they raise
TypeError, by name, and so do classes and distributions, which are SciPy's own objects. With plain
arguments every function returns SciPy's result.

>>> import tapegrad as tg
>>> from tapegrad.scipy import special
>>> tg.grad(lambda x: special.logsumexp([x, 2.0 * x]))(0.0)
1.5
"""

from __future__ import annotations

import importlib as _importlib

from . import (
    cluster,
    constants,
    differentiate,
    fft,
    integrate,
    interpolate,
    io,
    linalg,
    ndimage,
    optimize,
    signal,
    sparse,
    spatial,
    special,
    stats,
)

__all__ = [
    "cluster",
    "constants",
    "differentiate",
    "fft",
    "integrate",
    "interpolate",
    "io",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]


def __getattr__(name: str):
    return getattr(_importlib.import_module("scipy"), name)
