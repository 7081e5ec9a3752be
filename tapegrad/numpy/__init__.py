"""NumPy's namespace for recorded values: `import tapegrad.numpy as np`.

Every public name of NumPy is here. Functions that dispatch are NumPy's own, and also take lists
with recorded values; a name that needs no change is NumPy's own object.

With plain arguments outside of transforms all functions return the results of NumPy. Inside
`tg.grad` and other transforms, `tg.compile` and `tg.vmap`, in their thread, functions that create
arrays of floats (`zeros`, `empty`, `array`, `copy`, `linspace`, …) return tensors, which can be
written with recorded values; arrays of integers, booleans and objects are plain. See
`docs/numpy.md`.

>>> import tapegrad as tg
>>> import tapegrad.numpy as np
>>> def area(r):
...     a = np.zeros(2)
...     a[0] = np.pi * r**2
...     return np.sum([a[0], 2.0])
>>> tg.grad(area)(0.5) == np.pi
True
"""

import functools as _functools
from pathlib import Path as _Path

import numpy as _numpy

from .._core.later import later as _later
from . import _classes, _creators, _index_tricks, _lists, _submodules, _vectorizing
from ._lists import finder as _finder

__all__ = sorted(_numpy.__all__)
__version__ = _numpy.__version__

_makers = _lists.REFUSED_MAKERS | _creators.MAKERS | _creators.POLY1D_MAKERS
for _module in (_index_tricks, _classes, _vectorizing):
    _makers |= dict.fromkeys(_module.__all__, _functools.partial(getattr, _module))
_of_numpy = _finder(globals(), _numpy, _makers)

#: Submodules of this package; others are NumPy's own.
_OURS = {_path.stem for _path in _Path(__file__).parent.iterdir() if _path.stem.isidentifier()}
_OURS = {_name for _name in _OURS if not _name.startswith("_")}
_submodules.find_submodules(_OURS)
_find, _names = _later(globals(), {_name: f".{_name}" for _name in _OURS})


def __getattr__(name: str):
    return _find(name) if name in _OURS else _of_numpy(name)


def __dir__() -> list[str]:
    return sorted({*_names(), *dir(_numpy)})
