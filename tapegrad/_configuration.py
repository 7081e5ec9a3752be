"""`show_config`: versions, processor, cache, variables: what a report of a fault needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from . import __version__
from ._core.codegen import machine_code, prebuilt
from ._core.codegen.machine_code import address_of
from ._core.codegen.machine_files import every_folder, size_of_all
from ._core.codegen.vector_math import vector_functions
from ._core.config import all_given, config


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
    found = {
        "versions": _versions(),
        "processor": _processor(),
        "kernels": {"from": _origin()},
        "cache": _cache(),
        "threads": {"of map and sum": os.cpu_count() or 1},
        "settings": {"enter": config.enter, "progress": config.progress},
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


def _processor() -> dict[str, Any]:
    """The level of the processor, and what of the C library computes several numbers at once."""
    level = next(iter(machine_code.of_this_processor()), None)
    found = vector_functions(level.vectors if level else ())
    lanes = [n for (*_, end), ways in found.items() for _, n in ways if not end]
    return {
        "level": level.name if level else platform.machine(),
        "vector functions": sorted({name for name, _, end in found if not end}),
        "numbers at once": max(lanes, default=1),
    }


def _origin() -> str:
    """Where the kernels come from that do not depend on a user's program."""
    built = prebuilt.library(address_of)
    if built is None:
        return "compiled at first use, then kept in the cache"
    count = len(built.index["counts"])
    return f"{count} built with the package for {built.index['level']}; others at first use"


def _cache() -> dict[str, Any]:
    try:
        files, size = size_of_all()
        return {"folder": str(every_folder()), "files": files, "bytes": size}
    except (OSError, RuntimeError) as error:  # the latter where nobody has a home
        return {"folder": f"cannot be read: {error}"}
