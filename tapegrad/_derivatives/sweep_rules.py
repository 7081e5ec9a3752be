"""Adjoints of rows without a kernel, in a sweep that stops there for their rules.

References are read straight from the chunk: a row costs about as much as the NumPy in its rule.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.ops.table import Site, Structural
from .._core.tape import sweeps
from .._core.tensor.runtime import silence
from .._core.tensor.values import value_of
from .recorded_reverse import parts_of, site_of, summed_to, values_at
from .tape_traversal import Before, Traversal

_PLACE = struct.Struct("<ii")  # of a row: its first reference, and the number of references
_REFERENCE = struct.Struct("<qii")
_OBJECTS = (layout.TAG_ARRAY, layout.TAG_OBJECT)
_number = ctypes.c_double.from_address
_FIRST, _ALL = slice(0, 1), slice(None)


def traversal_of(sweep, number: int) -> Any:
    """A traversal that finds what the row has read, even if it was written since."""
    if not sweep.writes:
        return Traversal(())
    if sweep.before is None:
        sweep.before = Before(())
    return sweep.before.at(number)


def _row_at(sweep, number: int) -> int:
    """The address of a row."""
    start = int(sweep.work.table[number >> layout.ROWS_BITS]) + layout.HEADER_BYTES
    return start + (number & (layout.ROWS - 1)) * layout.ROW_BYTES


def references_of(sweep, number: int):
    """Operands of a row, then its output, as `Traversal.read` returns them."""
    return sweep.references(number) or _references_of_all(sweep, number)


def _references_of_all(sweep, number: int) -> list:
    """The same of a row that refers to numbers, or is used up."""
    row = _row_at(sweep, number)
    start = row - (number & (layout.ROWS - 1)) * layout.ROW_BYTES
    first, count = _PLACE.unpack(ctypes.string_at(row + 4, 8))
    at = start + layout.ROWS * layout.ROW_BYTES + first * layout.REFERENCE_BYTES
    memory = ctypes.string_at(at, count * layout.REFERENCE_BYTES)
    objects = (ctypes.py_object * (2 * count)).from_address(at)  # every other word is none
    return [
        (source, objects[2 * k]) if tag in _OBJECTS else Traversal.referred(what, source, tag)
        for k, (what, source, tag) in enumerate(_REFERENCE.iter_unpack(memory))
    ]


def _value(sweep, source: int, what):
    """The value of an operand that nothing has written to since."""
    return np.float64(_number(_row_at(sweep, source) + 16).value) if what is None else what


def _read(sweep, number: int, op: Structural) -> tuple:
    """The arguments of the rule of a row: its site, the output, the operands."""
    if not sweep.writes:
        site = site_of(op, references_of(sweep, number))
        operands = [_value(sweep, *operand) for operand in site.operands]
        if site.out is None:
            return site, np.reshape(_value(sweep, number, None), site.shape), operands
        return site, site.out, operands
    traversal = traversal_of(sweep, number)
    site = site_of(op, traversal.read(number))
    output = lambda site: np.reshape(traversal.then(number, site.out), site.shape)  # noqa: E731
    return site, *values_at(op.used, site, traversal.then, output)


def pass_back(sweep, number: int, op: Structural) -> None:
    """Add to the adjoints of a row's operands what its rule gives for its own."""
    site, out, operands = _read(sweep, number, op)
    if site.out is None:
        own = sweep.cells(number).reshape(sweep.seeds, *site.shape)
    else:
        own = sweep.adjoint_buffer(number, site.out)
    with silence():
        if sweep.seeds == 1:
            _add(sweep, site, parts_of(op, own[0], site, out, operands), _FIRST)
        elif op.batch == "axis":
            _add(sweep, site, parts_of(op, own, site, out, operands), _ALL)
        else:
            for k, g in enumerate(own):
                _add(sweep, site, parts_of(op, g, site, out, operands), slice(k, k + 1))


def _add(sweep, site: Site, parts: list, seeds: slice) -> None:
    """Add adjoints of operands for some of the seeds; the parts have their axis if it is longer."""
    for (source, view), part in zip(site.operands, parts, strict=True):
        if part is None or sweep.add_plain(source, view, part):
            continue
        part = value_of(part) if seeds is _ALL else value_of(part)[None]
        if view is None or part.shape[1:] != view.shape:
            part = summed_to(part, np.shape(view), 1)
        sweep.add(source, view, part, seeds)


sweeps.by_rule.append(pass_back)
