"""Fields of steps in files: how each is written as JSON, and read from it.

Writers and readers are those of `files.encode` and `files.decode`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .json_values import integer, integers, items
from .steps import View


class Field(NamedTuple):
    """How a value is written and read; `attribute` of a step, if not that of the name in files."""

    encode: Callable[[Any, Any], Any]
    decode: Callable[[Any, Any], Any]
    attribute: str = ""


def listed(one: Field, kind: type = list) -> Field:
    """A list of values, or a tuple."""
    return Field(
        lambda writer, found: [one.encode(writer, x) for x in found],
        lambda reader, item: kind([one.decode(reader, x) for x in items(item)]),
    )


def grouped(*fields: Field) -> Field:
    """A tuple of values, each of its own kind."""
    return Field(
        lambda writer, found: [f.encode(writer, x) for f, x in zip(fields, found, strict=True)],
        lambda reader, item: tuple(
            [f.decode(reader, x) for f, x in zip(fields, items(item, len(fields)), strict=True)]
        ),
    )


VIEW = Field(lambda writer, view: writer.view(view), lambda reader, item: reader.view(item))
#: A view, or a plain value.
OPERAND = Field(lambda writer, x: writer.operand(x), lambda reader, item: reader.operand(item))
INTEGER = Field(lambda _, x: x, lambda _, item: integer(item))
INTEGERS = Field(lambda _, found: list(found), lambda _, item: integers(item))
#: A view, or the number of an operation.
NODE = Field(
    lambda writer, x: writer.view(x) if isinstance(x, View) else x,
    lambda reader, item: reader.view(item) if type(item) is list else integer(item),
)
#: An operation, and an array of them.
CODE = Field(lambda writer, code: writer.operation(code), lambda reader, item: reader.code(item))
CODES = Field(
    lambda writer, codes: writer.array_of_codes(codes),
    lambda reader, item: reader.array_of_codes(item),
)
SLOTS = Field(
    lambda writer, slots: writer.array(np.asarray(slots, np.int32)),
    lambda reader, item: reader.array(item, np.int32),
)
#: A dtype, or None.
DTYPE = Field(
    lambda _, dtype: None if dtype is None else dtype.name,
    lambda reader, item: None if item is None else reader.dtype(item),
)
