"""Calls of Python functions that have no derivative."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.tensor.trace import name_of
from .array_step import ArrayStep
from .file_fields import DTYPE, OPERAND, grouped, listed
from .json_values import fields
from .steps import View
from .verify_memory import KINDS, Memory, expect
from .work import Work

_OPERANDS = listed(grouped(OPERAND, DTYPE))


@dataclasses.dataclass
class Computed(ArrayStep):
    """A Python function without derivative: out = function(*operands).

    `operands` are views, each with the dtype of the array that is passed, or other objects.
    """

    function: Callable
    operands: list[tuple[Any, np.dtype | None]]
    out: View

    plural = "calls of Python"
    calls_python = True

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        for operand, dtype in self.operands:
            if isinstance(operand, View):
                memory.read(operand)
                expect(dtype is not None and dtype.kind in KINDS, f"an operand as {dtype}")
            else:
                expect(dtype is None, "a constant operand with a dtype")

    def encoded(self, writer: Any) -> dict:
        bound = functools.partial(self.function)  # for a partial: the same again
        return {
            "out": writer.view(self.out),
            "function": writer.value(bound.func),
            "keywords": writer.value(bound.keywords),
            "operands": _OPERANDS.encode(writer, self.operands),
        }

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Computed:
        out, function, keywords, operands = fields(item, "out", "function", "keywords", "operands")
        called, bound = reader.value(function), reader.value(keywords)
        named = type(bound) is dict and all(type(name) is str for name in bound)
        if not callable(called) or not named:
            raise ValueError("a function is none, or its keywords are not")
        if bound:
            called = functools.partial(called, **bound)
        return Computed(called, _OPERANDS.decode(reader, operands), reader.view(out))

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> Work:
        return Work(1, python=1.0)

    @property
    def called(self) -> str:
        return name_of(getattr(self.function, "func", self.function)).strip("_")
