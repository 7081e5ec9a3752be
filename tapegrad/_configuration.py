"""`show_config`: versions, processor, cache, variables: what a report of a fault needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import numpy as np

from . import __version__
from ._core.codegen.machine_files import every_folder, size_of_all
from ._core.codegen.vector_math import vector_functions
from ._core.config import config
from ._core.environment import all_given

#: The levels of x86-64, the highest first, by the features that NumPy finds: its names differ.
_LEVELS = {
    "x86-64-v4": ({"X86_V4"}, {"AVX512_SKX"}),
    "x86-64-v3": ({"X86_V3"}, {"AVX2", "FMA3"}),
    "x86-64-v2": ({"X86_V2"}, {"SSE42", "POPCNT"}),
}

#: The sets of instructions that have vector functions.
_INSTRUCTIONS = {"x86-64-v4": ("avx2", "avx512f"), "x86-64-v3": ("avx2",)}


def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Print what this installation computes with: add it to a report of a fault.

    These are the versions, the level of the processor, whether kernels are compiled, the folder
    that keeps them, threads, settings, and the environment variables that are set. Nothing is
    imported, compiled or written for it.

    Parameters
    ----------
    mode : {"stdout", "dicts"}, optional
        Whether it is printed or returned, as by `numpy.show_config`.

    Returns
    -------
    dict or None
        With "dicts" a dict of sections, each a dict of strings, numbers and lists.

    Raises
    ------
    ValueError
        If `mode` is anything else.

    Examples
    --------
    >>> import tapegrad as tg
    >>> found = tg.show_config(mode="dicts")
    >>> [*found]
    ['versions', 'processor', 'kernels', 'cache', 'threads', 'settings', 'environment']
    >>> found["versions"]["tapegrad"] == tg.__version__
    True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"tapegrad.show_config: mode is 'stdout' or 'dicts', not {mode!r:.60}")
    level = _level()
    found = {
        "versions": _versions(),
        "processor": {"level": level, **_vector_functions(level)},
        "kernels": {"from": _origin()},
        "cache": _cache(),
        "threads": {"of map and sum": os.cpu_count() or 1},
        "settings": {"enter": config.enter},
        "environment": all_given(),
    }
    if mode == "dicts":
        return found
    for section, entries in found.items():
        print(f"{section}:{'' if entries else ' none'}")
        for name, value in entries.items():
            print(f"  {name}: {', '.join(value) if isinstance(value, list) else value}")
    return None


def _versions() -> dict[str, str]:
    """Of packages as they are installed: some are imported late, or never."""
    others = {}
    for name in ("numpy", "scipy", "numba", "llvmlite"):
        try:
            others[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            others[name] = "not installed"
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    return {
        "tapegrad": __version__,
        "python": python,
        "platform": platform.platform(),
        **others,
    }


def _level() -> str:
    """The level of x86-64, or the name of another architecture."""
    found = (np.show_config(mode="dicts") or {}).get("SIMD Extensions", {})
    features = {*found.get("baseline", ()), *found.get("found", ())}
    fitting = [name for name, ways in _LEVELS.items() if any(way <= features for way in ways)]
    return next(iter(fitting), platform.machine())


def _vector_functions(level: str) -> dict[str, Any]:
    """The functions of the C library that compute several numbers at once."""
    found = vector_functions(_INSTRUCTIONS.get(level, ()))
    lanes = [n for (*_, end), ways in found.items() for _, n in ways if not end]
    names = sorted({name for name, _, end in found if not end})
    return {"vector functions": names, "numbers at once": max(lanes, default=1)}


def _origin() -> str:
    """Where the kernels come from that do not depend on a user's program."""
    return "compiled at first use, then kept in the cache"


def _cache() -> dict[str, Any]:
    try:
        files, size = size_of_all()
        return {"folder": str(every_folder()), "files": files, "bytes": size}
    except (OSError, RuntimeError) as error:  # the latter where nobody has a home
        return {"folder": f"cannot be read: {error}"}
