"""The short way of a call: arrays and floats as they come, one number out, nothing looked up."""

from __future__ import annotations

import ctypes

import numpy as np

from ..inputs import plain
from ..replay.layout import FINISHED
from ..replay.parts import Run
from ..tensor import memory
from .arguments import Arguments
from .variants import Variant

_FLOAT64 = np.dtype(np.float64)
_word = ctypes.c_int64


class _Memory:
    """A run with its tables of objects."""

    __slots__ = ("given", "given_at", "result", "run", "wanted", "wanted_at")

    def __init__(self, run: Run, count: int, slot: int):
        self.run = run
        self.given, self.wanted = (_word * count)(), (_word * count)()
        self.given_at, self.wanted_at = map(ctypes.addressof, (self.given, self.wanted))
        self.result = ctypes.c_double.from_address(run.values.ctypes.data + 8 * slot)


class FastCall:
    """Evaluations of a program whose inputs are the positional arguments, and its result a number.

    A call returns None where that does not hold, or a guard fails. Compiled code looks at the
    arguments.
    """

    def __init__(self, variant: Variant):
        self.variant, self.program = variant, variant.program
        self.calls = 0
        program = self.program
        code = program.code
        self.shapes = [one.view.shape for one in code.inputs]
        self.differentiated = [one.differentiated for one in code.inputs]
        self.makers = [memory.maker(shape) for shape in self.shapes]
        self.count = len(code.inputs)
        self.numbers = any(one.differentiated and one.view.shape == () for one in code.inputs)
        self.slot = code.outputs[0].view.offset
        self.compiled = program.compiled["fast"]
        self.address = program.address
        self.free: list[_Memory] = []

    def value_and_grad(self, args: tuple):
        """The value, and the derivatives of the differentiated arguments as they are asked for."""
        if len(args) != self.count or self.variant.program is not self.program:
            return None
        self.calls += 1
        try:
            held = self.free.pop()
        except IndexError:
            held = self._memory()
        given, wanted, found = held.given, held.wanted, []
        for k, arg in enumerate(args):
            given[k] = id(arg)
            if self.differentiated[k]:
                made = self.makers[k](self.shapes[k])
                wanted[k] = id(made)
                found.append(made)
        status = self.compiled(held.run.address, self.address, held.given_at, held.wanted_at)
        value = held.result.value
        self.free.append(held)
        if status != FINISHED:
            return None
        return value, [plain(one) for one in found] if self.numbers else found

    def _memory(self) -> _Memory:
        return _Memory(self.program.begin(), self.count, self.slot)


def fast_call(variant: Variant, arguments: Arguments) -> FastCall | None:
    """The short way of a variant, if there is one."""
    code = variant.program.code
    plain = not arguments.names and not any(fixed for fixed, _ in arguments.static)
    whole = len(arguments.trees) == len(arguments.values)
    dtypes = [dtype for dtype, _, _ in arguments.kinds] + [one.dtype for one in code.outputs]
    exact = all(dtype == _FLOAT64 for dtype in dtypes)
    number = len(code.outputs) == len(variant.leaves) == 1 and code.outputs[0].view.size == 1
    if not (plain and whole and exact and number):
        return None
    if variant.fast is None:
        variant.fast = FastCall(variant)
    return variant.fast
