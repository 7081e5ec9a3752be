"""Calls of a user's operations that have adjoints of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..._core.tensor.trace import CustomCall
from .array_step import ArrayStep
from .steps import View
from .work import Work


@dataclasses.dataclass
class Custom(ArrayStep):
    """A call of a user's operation: out = call(*operands), and its adjoint.

    `code` is that of the operation in its row; `operands` are views, each with the dtype of the
    array that is passed. The adjoint is computed if `is_reached` says that adjoints of results of
    the program get here: then it is called even for zeros.
    """

    code: int
    call: CustomCall
    operands: list[tuple[View, np.dtype]]
    out: View
    is_reached: bool

    plural = "calls of a user's operations"
    calls_python = True
    needs_values = False  # the call keeps what its adjoint reads

    def key(self, places: Any) -> None:
        """None is the same as another: it may have effects, or depend on more than operands."""
        return None

    # --- files --------------------------------------------------------------------------------

    def encoded(self, writer: Any) -> dict:
        raise ValueError(f"it calls {self.call.name}, which files have no name for")

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Custom:
        raise ValueError("it calls an operation of a user's, which files have no name for")

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> Work:
        return Work(1, python=1.0)

    @property
    def results(self) -> Iterable[tuple[int, int | None]]:
        return [(self.code, None)]

    @property
    def called(self) -> str:
        return self.call.name
