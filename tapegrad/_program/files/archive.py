"""The container of files: a NumPy .npz of a header, which is JSON text, and pools of numbers.

All arrays of one dtype are contiguous in a pool, and the header has their places. Nothing in a file
is compressed or pickled: the result is never larger than the file.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import secrets
import shutil
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

HEADER = "header"
#: The default limit of the bytes of a file, and of values and adjoints of a program in it.
MOST_BYTES = 1 << 32
#: The array for which NumPy 2.0 and 2.1 take `allow_pickle` of `np.savez`: files written with them
#: have it.
_STRAY = "allow_pickle.npy"
#: The pools that a file may have, by the names of their dtypes.
DTYPES = {
    dtype.name: dtype.newbyteorder("<")
    for dtype in map(np.dtype, "bool i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split())
}


class Pools:
    """Arrays put into a file, or taken from it."""

    def __init__(self, pools: dict[str, np.ndarray] | None = None):
        self.pools = pools or {}
        self._added: dict[str, list[np.ndarray]] = {}
        self._counts: dict[str, int] = {}

    def add(self, array: np.ndarray) -> list:
        """Add an array; returns where it is: pool, first number, shape."""
        name = array.dtype.name
        if name not in DTYPES:
            raise ValueError(f"an array has dtype {array.dtype}")
        start = self._counts.get(name, 0)
        self._counts[name] = start + array.size
        self._added.setdefault(name, []).append(np.ravel(array))
        return [name, start, list(array.shape)]

    def joined(self) -> dict[str, np.ndarray]:
        """The pools of all that was added."""
        return {
            name: np.concatenate(arrays).astype(DTYPES[name], copy=False)
            for name, arrays in self._added.items()
        }

    def get(self, name: str, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """The array that is there, in the order of bytes of this machine."""
        if name not in self.pools:
            raise ValueError(f"there are no numbers {name}")
        pool, size = self.pools[name], math.prod(shape)
        if min(start, *shape, 0) < 0 or start + size > len(pool):
            raise ValueError(f"an array of {shape} from {start} in {len(pool)} numbers")
        found = pool[start : start + size].reshape(shape)
        return found.astype(found.dtype.newbyteorder("="), copy=True)


def write(path, header: Any, pools: dict[str, np.ndarray]) -> None:
    """Write a file, or to a stream of bytes; the suffix is the caller's.

    It is what `np.savez` writes, byte by byte the same with any NumPy and at any time. What was at
    the path stays until all is written.
    """
    if hasattr(path, "write"):
        _write_to(path, header, pools)
        return
    path = Path(os.path.realpath(path))  # a link stays one
    if path.exists() and not path.is_file():  # such as a device
        with path.open("wb") as stream:
            _write_to(stream, header, pools)
        return
    partial = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with partial.open("xb") as stream:
            _write_to(stream, header, pools)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _write_to(path, header: Any, pools: dict[str, np.ndarray]) -> None:
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in {HEADER: np.frombuffer(text, np.uint8), **pools}.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.external_attr = 0o600 << 16
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, (1, 0), allow_pickle=False)


def read(path, most_bytes: int = MOST_BYTES) -> tuple[Any, Pools]:
    """The header of a file of at most so many bytes, or of its content, and its numbers.

    Any error in it raises.
    """
    content = path if isinstance(path, bytes) else _content(Path(path), most_bytes)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [m for m in archive.infolist() if m.filename != _STRAY]
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("its parts are larger than the file")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("its parts are compressed")
        arrays = {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in members}
    header = arrays.pop(HEADER, None)
    if header is None or header.dtype != np.uint8:
        raise ValueError("it has no header")
    for name, pool in arrays.items():
        if DTYPES.get(name) != pool.dtype:
            raise ValueError(f"its numbers {name} are {pool.dtype}")
    return json.loads(header.tobytes().decode()), Pools(arrays)


def _content(path: Path, most_bytes: int) -> bytes:
    """The bytes of a regular file; others may never end, and a size may be that of no data."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > most_bytes:
        raise ValueError(
            f"it has {found.st_size} bytes; allow more than {most_bytes} with most_bytes="
        )
    return path.read_bytes()


def _array(content: bytes) -> np.ndarray:
    """An array as `np.save` writes one, of one axis; nothing is believed about its size."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array has another encoding")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    data = stream.read()
    if dtype.kind not in "biuf" or shape != (len(data) // dtype.itemsize,):
        raise ValueError(f"an array of shape {shape} has {len(data)} bytes")
    return np.frombuffer(data, dtype)
