"""The files of the package's modules, as they were when it was imported."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from .. import IMPORTED, PACKAGE

#: The coarsest steps of the clock of a file system, in nanoseconds.
_STEP = 10_000_000
#: Digests of the files that were read, by module.
digests: dict[str, str] = {}


class Changed(Exception):
    """A file has changed since the package was imported, or cannot be read."""


@functools.cache
def path_of(module: str) -> Path | None:
    """The file of a module of the package; None if it is no such module."""
    first, *rest = module.split(".")
    path = PACKAGE.joinpath(*rest)
    found = (path / "__init__.py", path.with_suffix(".py")) if first == PACKAGE.name else ()
    return next((one for one in found if one.is_file()), None)


def content_of(module: str) -> bytes:
    """The file of a module, as it was imported."""
    path = path_of(module)
    try:
        if path is not None and path.stat().st_ctime_ns < IMPORTED - _STEP:
            return path.read_bytes()
    except OSError as error:
        raise Changed(module) from error
    raise Changed(module)


def digest_of(module: str) -> str:
    """The digest of the file of a module."""
    if module not in digests:
        digests[module] = hashlib.sha256(content_of(module)).hexdigest()
    return digests[module]
