"""The short way of a call: arrays and floats as they come, one number out, nothing looked up."""

from __future__ import annotations

import ctypes

import numpy as np

from ..inputs import plain
from ..replay.layout import FINISHED
from ..replay.parts import Run
from ..tensor import memory
from ..tensor.values import value_of
from .arguments import Arguments
from .variants import Variant

_FLOAT64 = np.dtype(np.float64)
_word = ctypes.c_int64


class _Memory:
    """A run with its table of objects (see `driver.fast`)."""

    __slots__ = ("at", "result", "run", "table")

    def __init__(self, run: Run, count: int, slot: int):
        self.run = run
        self.table = (_word * (2 + 2 * count))(run.address, run.program.address)
        self.at = ctypes.addressof(self.table)
        self.result = ctypes.c_double.from_address(run.values.ctypes.data + 8 * slot)


class FastCall:
    """Evaluations of a program whose inputs are the positional arguments, and its result a number.

    A call returns None where that does not hold, or a guard fails. Compiled code looks at the
    arguments.
    """

    def __init__(self, variant: Variant):
        self.variant, self.program = variant, variant.program
        self.calls = 0
        code = self.program.code
        self.count = len(code.inputs)
        #: Of each differentiated input its place in the table, what makes its gradient, its shape.
        self.gradients = [
            (2 + self.count + k, memory.maker(one.view.shape), one.view.shape)
            for k, one in enumerate(code.inputs)
            if one.differentiated
        ]
        self.numbers = any(shape == () for _, _, shape in self.gradients)
        self.slot = code.outputs[0].view.offset
        self.compiled = self.program.compiled["fast"]
        self.free: list[_Memory] = []

    def value_and_grad(self, args: tuple, arrays=()):
        """The value, and the derivatives of the differentiated arguments in their order.

        They are written to `arrays`, if these are given.
        """
        if len(args) != self.count or self.variant.program is not self.program:
            return None
        self.calls += 1
        try:
            held = self.free.pop()
        except IndexError:
            held = _Memory(self.program.begin(), self.count, self.slot)
        table, k = held.table, 2
        found: list[np.ndarray] = []
        for arg in args:
            table[k] = id(arg)
            k += 1
        for place, make, shape in self.gradients:
            made = arrays[len(found)] if arrays else make(shape)
            table[place] = id(made)
            found.append(made)
        status = self.compiled(held.at)
        value = held.result.value
        self.free.append(held)
        if status != FINISHED:
            return None
        return value, [plain(one) for one in found] if self.numbers else found


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


def arrays_for(out, args: tuple, argnums: tuple[int, ...], single: bool) -> dict:
    """The caller's arrays by the number of their argument, once they are known to be fit."""
    arrays = (out,) if single else out
    if not all(-len(args) <= number < len(args) for number in argnums):
        raise ValueError(
            f"tapegrad.compile: out needs the arguments of argnums {argnums} by position; there "
            f"are {len(args)}"
        )
    numbers = [number % len(args) for number in argnums]
    if not isinstance(arrays, (tuple, list)) or len(arrays) != len({*numbers}):
        raise ValueError(
            f"tapegrad.compile: out must be {len(numbers)} arrays, one for each argument of "
            f"argnums {argnums}"
        )
    for number, array in zip(numbers, arrays, strict=True):
        argument = value_of(args[number])
        shape = np.shape(argument) if isinstance(argument, (np.ndarray, float, int)) else None
        fits = isinstance(array, np.ndarray) and array.dtype == _FLOAT64 and array.shape == shape
        if not fits or not array.flags.carray:
            seen = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else array
            wanted = "in a structure" if shape is None else f"of shape {shape}"
            raise ValueError(
                f"tapegrad.compile: out for argument {number}, {wanted}, is {seen}; it must be a "
                "writable float64 array in C order of the same shape"
            )
        others = [*map(value_of, args), *arrays]
        if sum(np.may_share_memory(array, x) for x in others if isinstance(x, np.ndarray)) > 1:
            raise ValueError(
                f"tapegrad.compile: out for argument {number} shares memory with an argument or "
                "another out; give it memory of its own"
            )
    return dict(zip(numbers, arrays, strict=True))
