"""Import of NumPy's submodules below `tapegrad.numpy`, which are NumPy's own.

`import tapegrad.numpy.ma` and `from tapegrad.numpy.lib.stride_tricks import as_strided` work as
with `numpy`.
"""

import importlib
import importlib.machinery
import importlib.util
import sys

_OURS, _NUMPYS = "tapegrad.numpy.", "numpy."


class _Finder:
    """Finds NumPy's modules, before the paths of NumPy's packages give them a second time.

    It finds and loads, without a base class: `importlib.abc` imports more than all of this package.
    """

    def __init__(self, ours: set[str]):
        self._ours = ours

    def find_spec(self, name, path, target=None):
        if not name.startswith(_OURS):
            return None
        below = name.removeprefix(_OURS)
        if (
            below.partition(".")[0] in self._ours
            or importlib.util.find_spec(_NUMPYS + below) is None
        ):
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec) -> None:
        """A module is made as usual."""

    def exec_module(self, module) -> None:
        name = module.__name__
        sys.modules[name] = importlib.import_module(_NUMPYS + name.removeprefix(_OURS))


def find_submodules(ours: set[str]) -> None:
    """Let import statements find NumPy's submodules, except for those of this package."""
    sys.meta_path.insert(0, _Finder(ours))
