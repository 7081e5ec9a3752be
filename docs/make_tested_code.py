"""Writes the digests of the functions of the installed SciPy to tapegrad/scipy/_tested_code.txt.

Run it with each version of SciPy after its tests have passed: the digests of other versions stay,
but for those that are named as arguments. They are of the functions in the modules that are copied
whole, and of the others that are released, with what those call.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import scipy

from tapegrad.scipy._copied_code import COPIED, PLACES
from tapegrad.scipy._tested_code import (
    FILE,
    RELEASED,
    digest,
    digests_of,
    functions_in,
    reached,
    tested,
)

ROOT = Path(scipy.__file__).resolve().parent
#: Parts of those modules that no copied function calls.
LEFT_OUT = ("tests", "_uarray", "cobyqa", "pyprima", "torch", "dask", "cupy", "docscrape")


def files() -> Iterator[Path]:
    for place in PLACES:
        package, _, rest = place.partition(".")
        path = ROOT / rest.rstrip(".").replace(".", "/")
        if package == "scipy":
            yield from sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def found() -> set[str]:
    every = set()
    for path in files():
        if path.is_file() and not {*path.parts, path.stem} & {*LEFT_OUT}:
            for nodes in functions_in(path).values():
                every.update(digest(path, node) for node in nodes)
    for name in [*COPIED, *RELEASED]:
        module, _, own = name.rpartition(".")
        function = getattr(importlib.import_module(f"scipy.{module}"), own, None)
        if isinstance(function, types.FunctionType):
            function = inspect.unwrap(function)
            for one in reached(function):
                every.update(digests_of(one.__code__) or [])
    return every


def text(versions: dict[str, frozenset[str]]) -> str:
    """A paragraph for each set of versions that have digests in common."""
    having: dict[str, list[str]] = {}
    for version in sorted(versions):
        for one in versions[version]:
            having.setdefault(one, []).append(version)
    groups: dict[str, list[str]] = {}
    for one in sorted(having):
        groups.setdefault(" ".join(having[one]), []).append(one)
    return "".join(
        f"{name}: {line}\n"
        for name in sorted(groups)
        for line in textwrap.wrap(" ".join(groups[name]), 10_000)
    )


if __name__ == "__main__":
    kept = {name: one for name, one in tested().items() if name not in sys.argv[1:]}
    FILE.write_text(text(kept | {scipy.__version__: frozenset(found())}), encoding="ascii")
