"""Parts of programs as JSON and numbers, and back; the functions that files can name."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import math
import operator
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..._core.ops.table import BY_CODE, COMPLEX, POWERS, STEERING, TABLE
from ..._core.tensor.trace import NAMED
from ..ir.steps import (
    ARENA,
    GUARD,
    Code,
    Step,
    View,
    integer,
    integers,
    items,
    label,
    pairs,
    short,
    text,
)
from ..ir.uses import KINDS, MOST, IllegalProgram, Memory, expect

# --- The Python functions that files of programs can name, and no others --------------------------
# They read arrays and give arrays; none of them opens files, runs code, or writes to its operands.


#: In addition to its ufuncs.
_NUMPY = (
    "all allclose angle any argmax argmin argpartition argsort argwhere array array_equal "
    "array_equiv asarray bincount clip convolve corrcoef correlate count_nonzero cov cross diff "
    "digitize dot ediff1d einsum flatnonzero full_like gradient histogram inner interp isclose "
    "iscomplex isin isneginf isposinf isreal lexsort linalg.matrix_norm linalg.norm "
    "linalg.vector_norm logical_and.reduce logical_or.reduce mean median nan_to_num nanargmax "
    "nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod "
    "nanquantile nanstd nansum nanvar nonzero outer packbits partition percentile prod ptp "
    "quantile ravel round searchsorted sort squeeze std sum take take_along_axis tensordot "
    "trace unique unpackbits unravel_index unwrap var"
).split()
_OPERATORS = "and_ eq ge gt invert le lshift lt ne or_ rshift xor".split()


@functools.cache
def _by_name() -> dict[str, Callable]:
    found = {f"numpy.{name}": operator.attrgetter(name)(np) for name in _NUMPY}
    ufuncs = [one for one in vars(np).values() if isinstance(one, np.ufunc)]
    found |= {f"numpy.{one.__name__}": one for one in ufuncs}
    return found | {f"operator.{name}": getattr(operator, name) for name in _OPERATORS}


def function_named(name) -> Callable | None:
    """The function of a name, None for names that are not allowed."""
    if not isinstance(name, str):
        return None
    wing, _, ours = name.partition(".")
    return NAMED.get(ours) if wing == "tapegrad" else _by_name().get(name)


def name_of(function) -> str | None:
    """The name of a function, None if it has none."""
    named = ((f"tapegrad.{name}", one) for name, one in list(NAMED.items()))
    known = itertools.chain(_by_name().items(), named)
    return next((name for name, one in known if one == function), None)


# --------------------------------------------------------------------------------------------------
# The container of files: a NumPy .npz of a header, which is JSON text, and pools of numbers.
# All arrays of one dtype are contiguous in a pool, and the header has their places. Nothing in a
# file is compressed or pickled: the result is never larger than the file.


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


# --- Parts of programs as JSON and numbers: views, plain values, steps; `decode` reads them -------


#: The name of guards in columns of operations.
GUARD_NAME = "guard"


def operation_names() -> dict[int, str]:
    """Names of the operations that files have, by code."""
    declared = (*TABLE.values(), *STEERING.values(), *POWERS.values(), *COMPLEX.values())
    return {GUARD: GUARD_NAME, **{op.code: op.name for op in declared}}


class FileWriter:
    """Converts parts of programs to JSON, and keeps their numbers."""

    def __init__(self) -> None:
        self.pools = Pools()
        self.names = operation_names()
        #: The numbers that stand for operations in columns; a file names those that it uses.
        self.columns: dict[str, int] = {}

    def operation(self, code: int) -> str:
        """The name of an operation."""
        if code not in self.names:
            raise ValueError(f"it calls {BY_CODE[code].doc}, which files have no name for")
        return self.names[code]

    def array_of_codes(self, codes: np.ndarray) -> list:
        used, places = np.unique(codes, return_inverse=True)
        names = [self.operation(int(code)) for code in used]
        numbers = [self.columns.setdefault(name, len(self.columns)) for name in names]
        return self.array(np.array(numbers, np.int32)[places.reshape(codes.shape)])

    def array(self, array: np.ndarray) -> list:
        return self.pools.add(array)

    def view(self, view: View) -> list:
        return [view.offset, list(view.shape), list(view.strides), view.base]

    def value(self, value) -> Any:
        """A plain value: anything but numbers, text and truths is an object of one name."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) in (tuple, list):
            return {type(value).__name__: [self.value(item) for item in value]}
        for kind, (name, encode) in _ENCODED.items():
            if isinstance(value, kind):
                return {name: encode(self, value)}
        if isinstance(value, type) and issubclass(value, (bool, int, float, np.generic)):
            return {"dtype": np.dtype(value).name}
        named = name_of(value) if callable(value) else None
        if named is None:
            raise ValueError(f"it holds {value!r:.60}, which files have no name for")
        return {"function": named}

    def operand(self, item) -> Any:
        """A view, or a plain value."""
        return {"view": self.view(item)} if isinstance(item, View) else self.value(item)

    def step(self, step: Step) -> dict:
        return {"step": step.name, **step.encoded(self)}


#: Values that are objects of one name, by type.
_ENCODED: dict[type, tuple[str, Callable]] = {
    np.generic: ("number", lambda writer, x: writer.array(np.asarray(x))),
    float: ("float", lambda writer, x: x.hex()),
    bytes: ("bytes", lambda writer, x: x.hex()),
    dict: ("dict", lambda writer, x: [[writer.value(k), writer.value(v)] for k, v in x.items()]),
    slice: ("slice", lambda writer, x: [writer.value(v) for v in (x.start, x.stop, x.step)]),
    type(Ellipsis): ("ellipsis", lambda writer, x: True),
    np.ndarray: ("array", lambda writer, x: writer.array(x)),
    np.dtype: ("dtype", lambda writer, x: x.name),
}


# --- Parts of programs from JSON and numbers, as `encode` writes them -----------------------------
# The input may come from anywhere: types are checked one by one, and no name stands for anything
# but an operation of the table or a function of the list.


def dtype_named(item) -> np.dtype:
    if item not in DTYPES:
        raise ValueError(f"{short(item)} is no dtype")
    return DTYPES[item].newbyteorder("=")


class FileReader:
    """Makes parts of programs from JSON and numbers; `names` are the operations of its columns."""

    def __init__(self, pools: Pools, names: list):
        self.pools = pools
        self.codes = {name: code for code, name in operation_names().items()}
        self.columns = np.array([self.code(name) for name in names], np.int32)

    def code(self, name) -> int:
        if type(name) is not str or name not in self.codes:
            raise ValueError(f"there is no operation {short(name)}")
        return self.codes[name]

    def array_of_codes(self, item) -> np.ndarray:
        numbers = self.array(item, np.int32)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.columns):
            raise ValueError("a column has an operation that it does not name")
        return self.columns[numbers]

    def array(self, item, dtype=None) -> np.ndarray:
        name, start, shape = items(item, 3)
        found = self.pools.get(text(name), integer(start), integers(shape))
        if dtype is not None and found.dtype != dtype:
            raise ValueError(f"an array has dtype {found.dtype}, not {np.dtype(dtype)}")
        return found

    def view(self, item) -> View:
        offset, shape, strides, base = items(item, 4)
        return View(integer(offset), integers(shape), integers(strides), integer(base))

    def value(self, item) -> Any:
        if item is None or type(item) in (bool, str):
            return item
        if type(item) is int:
            return integer(item)
        if type(item) is not dict or len(item) != 1:
            raise ValueError(f"{short(item)} is no value")
        ((name, content),) = item.items()
        if name not in _DECODED:
            raise ValueError(f"there are no values of the kind {short(name)}")
        return _DECODED[name](self, content)

    def values(self, item, count: int | None = None) -> list:
        return [self.value(one) for one in items(item, count)]

    def function(self, item) -> Callable:
        found = function_named(item)
        if found is None:
            raise ValueError(f"it calls {short(item)}, which programs may not")
        return found

    def operand(self, item) -> Any:
        if type(item) is dict and set(item) == {"view"}:
            return self.view(item["view"])
        return self.value(item)

    def frame(self, item) -> tuple[str, int, str]:
        """A line of the user's code: file, number, function."""
        file, line, function = items(item, 3)
        return label(file), integer(line), label(function)

    def dtype(self, item) -> np.dtype:
        return dtype_named(item)

    def step(self, item) -> Step:
        if type(item) is not dict or item.get("step") not in Step.kinds:
            raise ValueError(f"{short(item)} is no step")
        found = {name: content for name, content in item.items() if name != "step"}
        return Step.kinds[item["step"]].decoded(self, found)


_DECODED: dict[str, Callable] = {
    "float": lambda reader, x: float.fromhex(text(x)),
    "bytes": lambda reader, x: bytes.fromhex(text(x)),
    "tuple": lambda reader, x: tuple(reader.values(x)),
    "list": lambda reader, x: reader.values(x),
    "dict": lambda reader, x: {reader.value(k): reader.value(v) for k, v in pairs(x)},
    "slice": lambda reader, x: slice(*reader.values(x, 3)),
    "ellipsis": lambda reader, x: Ellipsis,
    "array": lambda reader, x: reader.array(x),
    "number": lambda reader, x: reader.array(x)[()],
    "dtype": lambda reader, x: dtype_named(x),
    "function": lambda reader, x: reader.function(x),
}


# --- The conditions of a legal program, checked before any of it becomes compiled code ------------
# Compiled code checks no bounds: it trusts that each slot is written once and before it is read,
# that views lie in their memory, and that operands are as an operation takes them. Code that
# converts, rewrites or loads programs must ensure that; it is checked here.


def check(code: Code, most: int = MOST) -> None:
    """Raise IllegalProgram unless a program stays in its own memory.

    No view may have more than `most` elements.
    """
    memory = Memory(code, most)
    expect(set(code.clears) <= set(range(len(code.steps))), "slots are shared by no step")
    for number, step in enumerate(code.steps):
        try:
            for view in code.clears.get(number, []):
                memory.begin_again(view)
            step.check(memory)
        except IllegalProgram as error:
            raise IllegalProgram(f"step {number} ({type(step).__name__}): {error}") from None
    for output in code.outputs:
        expect(output.view.base == ARENA, "a result lies outside the arena")
        expect(output.dtype.kind in KINDS, f"a result has dtype {output.dtype}")
        memory.read(output.view)
