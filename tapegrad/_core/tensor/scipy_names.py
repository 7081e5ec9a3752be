"""The public names of SciPy's functions that are running, found by their frames."""

from __future__ import annotations

import importlib
import itertools
import sys
import types

from .. import PACKAGE

#: The functions that have derivatives here, by name below `scipy`; imported when first asked for.
_OURS = f"{PACKAGE.name}.scipy._forwarding"


def has_derivative(name: str) -> bool:
    """Whether `tapegrad.scipy` has a function of this name, such as "special.ndtr"."""
    return importlib.import_module(_OURS).find_ours(name) is not None


def class_with_derivative(name: str) -> str | None:
    """The class among these that a name is of, or whose method it names, as it is below `scipy`."""
    find = importlib.import_module(_OURS).find_ours
    return next((x for x in (name, name.rpartition(".")[0]) if isinstance(find(x), type)), None)


def scipy_name(frames: list[types.FrameType]) -> str | None:
    """The name below `scipy` of what the user has called, of SciPy's frames with it first.

    "optimize.brentq", "stats.gamma.logpdf"; None if nothing public is found.
    """
    modules = _public_modules()
    for frame in frames:
        name = _of_method(frame, modules) or _of_function(frame, modules)
        if name is not None:
            return name
    return None


def name_of_ufunc(ufunc) -> str | None:
    """The name below `scipy` of one of SciPy's ufuncs, None for others."""
    special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    return f"special.{name}" if getattr(special, name, None) is ufunc else None


def _public_modules() -> list[tuple[str, types.ModuleType]]:
    """SciPy's public modules that are imported, those with short names first."""
    found = [
        (name.partition(".")[2], module)
        for name, module in list(sys.modules.items())
        if name.startswith("scipy.") and isinstance(module, types.ModuleType)
        if not any(part.startswith("_") for part in name.split("."))
    ]
    return sorted(found, key=lambda pair: (pair[0].count("."), pair[0]))


def _public_part(module: str) -> str:
    """The public place below `scipy` of a module: "optimize" for "scipy.optimize._zeros_py"."""
    parts = module.split(".")[1:]
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), parts))


def _of_function(frame: types.FrameType, modules) -> str | None:
    """The public name of the function that a frame runs, also through decorators."""
    code, held = frame.f_code, [id(value) for value in frame.f_locals.values()]
    defined = _public_part(frame.f_globals.get("__name__", ""))
    # other modules import it, too
    for place, module in sorted(modules, key=lambda pair: pair[0] != defined):
        for name, value in vars(module).items():
            if name.startswith("_") or not isinstance(value, types.FunctionType):
                continue
            inner = getattr(value, "__wrapped__", None)
            if inner is not None and getattr(inner, "__code__", None) is code:
                return f"{place}.{name}"
            # several functions share the code of their decorator, which holds the one it wraps
            if value.__code__ is code and (inner is None or id(inner) in held):
                return f"{place}.{name}"
    return None


def _of_method(frame: types.FrameType, modules) -> str | None:
    """The public name of the method that a frame runs: of an object, as of stats, or of a class."""
    owner, method = frame.f_locals.get("self"), frame.f_code.co_name
    if owner is None or not type(owner).__module__.startswith("scipy."):
        return None
    kinds = [*type(owner).__mro__]
    for wanted in (owner, *kinds):
        for place, module in modules:
            for name, value in vars(module).items():
                if value is wanted and not name.startswith("_"):
                    shown = f"{place}.{name}"
                    return shown if method.startswith("__") else f"{shown}.{method}"
    return None
