"""The fast path of a call: arrays and floats unchanged, and no program looked up."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np

from ..._core.tensor import copies
from ..._core.tensor.pytree import (
    CONTAINERS,
    is_complex_leaf,
    is_fixed,
    items_of,
    repeats,
    tree_build,
    tree_leaves,
)
from ..._core.tensor.values import value_of
from ..._derivatives.inputs import plain
from ..ir.steps import DOUBLE
from ..replay.parts import Run
from ..replay.run_layout import FINISHED
from .signature import Arguments, kind_of_key, structure, trees_apart
from .variants import Variant

_SINGLE = np.dtype(np.float32)
_word = ctypes.c_int64


class _Memory:
    """A run with its table of objects (see `driver.fast`) and its results; `value` is the first."""

    __slots__ = ("at", "results", "run", "table", "value")

    def __init__(self, run: Run, firsts: list[int]):
        self.run, count = run, len(firsts)
        self.table = (_word * (2 + 3 * count))(run.address, run.program.address)
        self.table[2 + 2 * count :] = firsts  # type: ignore[assignment]
        self.at = ctypes.addressof(self.table)
        self.results = run.program.results(run)
        first = self.results[0].ctypes.data if self.results else run.values.ctypes.data
        number = ctypes.c_double if run.program.code.dtype == DOUBLE else ctypes.c_float
        self.value = number.from_address(first)


class FastCall:
    """Evaluations of a program whose inputs are the positional arguments.

    A call returns None where that does not hold, or a guard fails. Compiled code reads floats and
    arrays. Derivatives are given in some `order`. `is_number` says that there is one result of one
    element, which can be differentiated; `is_plain` that the function returns it unchanged, a
    float.
    """

    bare = True  # no argument is in a structure

    def __init__(self, variant: Variant, firsts: list[int]):
        self.variant, self.program, self._firsts = variant, variant.program, firsts
        self.unchanged = variant.names.check
        self.order: list[int] = []
        self.calls = 0
        code = self.program.code
        self.count = len(code.inputs)
        #: For each differentiated input its place in the table, the function that makes its
        #: gradient, its shape.
        self.gradients = [
            (2 + self.count + k, copies.maker(one.view.shape, code.dtype), one.view.shape)
            for k, one in enumerate(code.inputs)
            if one.differentiated
        ]
        self.differentiated = {k for k, one in enumerate(code.inputs) if one.differentiated}
        self.numbers = any(shape == () for _, _, shape in self.gradients)
        outputs = code.outputs
        self.is_number = (
            len(outputs) == len(variant.leaves) == 1
            and outputs[0].view.size == 1
            and outputs[0].dtype == code.dtype
        )
        bare = tree_build(variant.tree, iter([self] * len(variant.leaves))) is self
        is_float = self.is_number and outputs[0].view.shape == () and code.dtype == DOUBLE
        self.is_plain = is_float and bare
        self.compiled = self.program.compiled["fast"]
        self.compiled_value = self.program.compiled["fast_value"]
        self.free: list[_Memory] = []

    def reads_any(self, arrays: Iterable[np.ndarray]) -> bool:
        """Whether some arrays may lie in memory that the program reads outside."""
        held = self.program.code.held
        return bool(held) and any(np.may_share_memory(a, b) for a in arrays for b in held)

    def end(self) -> None:
        """Serve no further call: the variant has another program."""
        self.unchanged = bool  # which is False

    def _held(self, args: tuple) -> _Memory | None:
        """Memory for a call, with its arguments in the table."""
        if len(args) != self.count or not self.unchanged():
            return None
        self.calls += 1
        try:
            held = self.free.pop()
        except IndexError:
            held = _Memory(self.program.begin(), self._firsts)
        table, k = held.table, 2
        for arg in args:
            table[k] = id(arg)
            k += 1
        return held

    def value(self, args: tuple) -> tuple | None:
        """The result of the function, in a tuple."""
        held = self._held(args)
        if held is None:
            return None
        status = self.compiled_value(held.at)
        found = None
        if status == FINISHED:
            found = (held.value.value if self.is_plain else self.variant.result(held.results),)
        self.free.append(held)
        return found

    def value_and_grad(self, args: tuple, arrays=()):
        """The value, and the derivatives of the differentiated inputs in their order.

        They are written to `arrays`, if these are given.
        """
        held = self._held(args)
        if held is None:
            return None
        table = held.table
        found: list[np.ndarray] = []
        for place, make, shape in self.gradients:
            made = arrays[len(found)] if arrays else make(shape)
            table[place] = id(made)
            found.append(made)
        status = self.compiled(held.at)
        value = held.value.value
        self.free.append(held)
        if status != FINISHED:
            return None
        return value, [plain(one) for one in found] if self.numbers else found

    def arranged(self, args: tuple, gradients: list, argnums: tuple[int, ...], single: bool):
        """Derivatives of the inputs, as `argnums` names their arguments."""
        if self.bare:
            return tuple([gradients[k] for k in self.order])
        given, numbers = iter(gradients), [number % len(args) for number in argnums]
        built = {k: tree_build(args[k], given) for k in sorted({*numbers})}
        found = [built[k] for k in numbers]
        return found[0] if single else tuple(found)


class ExactCall(FastCall):
    """The same where data without axes must have the types that they had, by their places."""

    def __init__(self, variant: Variant, firsts: list[int], exact: list[tuple[int, type]]):
        super().__init__(variant, firsts)
        self.exact = exact

    def _held(self, args: tuple) -> _Memory | None:
        if len(args) == self.count and any([type(args[k]) is not kind for k, kind in self.exact]):
            return None
        return super()._held(args)


class StructuredCall(FastCall):
    """The same where arguments hold inputs in structures."""

    bare = False

    def __init__(self, variant: Variant, arguments: Arguments):
        super().__init__(variant, [-1] * len(variant.program.code.inputs))
        self.structures = [structure(tree) for tree in arguments.trees]
        self._same, self._apart = arguments.same, arguments.apart

    def value(self, args: tuple) -> tuple | None:
        inputs = self._inputs(args, ())
        return None if inputs is None else super().value(inputs)

    def value_and_grad(self, args: tuple, arrays=()):
        inputs = self._inputs(args, self._apart)
        return None if inputs is None else super().value_and_grad(inputs, arrays)

    def _inputs(self, args: tuple, apart) -> tuple | None:
        """The inputs in the arguments, if these have the structures."""
        if len(args) != len(self.structures):
            return None
        leaves: list = []
        objects: list[int] = []
        for k, made in enumerate(self.structures):
            if not _taken(args[k], made, leaves, [] if k in apart else objects):
                return None
        if self._same or len({*objects}) < len(objects):
            if repeats(trees_apart(args, apart)) != self._same:
                return None
        return tuple(leaves)


def _taken(tree, made, leaves: list, objects: list[int]) -> bool:
    """Whether a tree has a structure; its leaves, and its objects by their ids, are added."""
    if made is None:
        leaves.append(tree)
        if type(tree) is not float:
            objects.append(id(tree))
        return True
    kind, inner = made
    if issubclass(kind, dict):
        if type(tree) is not kind or len(tree) != len(inner):
            return False
        objects.append(id(tree))
        for key, (name, item, of_key) in zip(tree, inner, strict=True):
            if key is not name and (key != name or kind_of_key(key) != of_key):
                return False
            if not _taken(tree[key], item, leaves, objects):
                return False
        return True
    if kind is complex:
        leaves += [part for _, part in tree_leaves(tree)]
        objects.append(id(tree))
        return is_complex_leaf(tree)
    if type(tree) is not kind:
        return False
    if not isinstance(tree, tuple):
        objects.append(id(tree))
    if isinstance(tree, (tuple, list)):
        held = tree if kind in CONTAINERS else items_of(tree)
        if len(held) != len(inner):
            return False
        for one, item in zip(held, inner, strict=True):
            if not _taken(one, item, leaves, objects):
                return False
        return True
    return all([_has_field(tree, name, field, leaves, objects) for name, field in inner])


def _has_field(tree, name: str, field, leaves: list, objects: list[int]) -> bool:
    """Whether a field has the value, or the structure in a tuple, that it had."""
    value = getattr(tree, name)
    if type(field) is tuple:
        return not is_fixed(value) and _taken(value, field[0], leaves, objects)
    return value is field or (type(value) is type(field) and value == field)


def fast_call(variant: Variant, arguments: Arguments) -> FastCall | None:
    """The fast path of a variant, if there is one."""
    plain = not arguments.names and not any(fixed for fixed, _ in arguments.static)
    dtypes = [(dtype, shape) for dtype, shape, _ in arguments.kinds]
    exact = all(dtype == DOUBLE or (dtype == _SINGLE and shape) for dtype, shape in dtypes)
    in_order = not any(arguments.orders)  # compiled code takes arrays in C order alone
    kinds = zip(arguments.kinds, arguments.types, strict=True)
    numbers = [
        (k, kind) for k, ((_, shape, wanted), kind) in enumerate(kinds) if not (shape or wanted)
    ]
    is_exact = variant.is_exact and bool(numbers)
    if not (plain and exact and in_order):
        return None
    fast = variant.fast
    if fast is None or fast.program is not variant.program:
        if any([structure(tree) for tree in arguments.trees]):
            if is_exact:
                return None
            fast = StructuredCall(variant, arguments)
        else:
            before = dict(arguments.same)
            firsts = [before.get(k, k) for k in range(len(arguments.trees))]
            fast = ExactCall(variant, firsts, numbers) if is_exact else FastCall(variant, firsts)
        variant.fast = fast
        if fast.program is not variant.program:  # another thread has put one in its place
            fast.end()
    return fast


def arrays_for(out, args: tuple, argnums: tuple[int, ...], single: bool) -> dict:
    """The caller's arrays by the number of their argument, once they have been checked."""
    arrays = (out,) if single else out
    if not all(-len(args) <= number < len(args) for number in argnums):
        raise ValueError(
            f"tapegrad.compile: out needs the arguments of argnums {argnums} by position; there "
            f"are {len(args)}"
        )
    numbers = [number % len(args) for number in argnums]
    if len({*numbers}) < len(numbers):
        raise ValueError(
            f"tapegrad.compile: out needs argnums that name each argument once, not {argnums}"
        )
    if not isinstance(arrays, (tuple, list)) or len(arrays) != len(numbers):
        raise ValueError(
            f"tapegrad.compile: out must be {len(numbers)} arrays, one for each argument of "
            f"argnums {argnums}"
        )
    for number, array in zip(numbers, arrays, strict=True):
        argument = value_of(args[number])
        shape = np.shape(argument) if isinstance(argument, (np.ndarray, float, int)) else None
        own = getattr(argument, "dtype", DOUBLE)
        dtype = _SINGLE if own == _SINGLE else DOUBLE
        fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape
        if not fits or not array.flags.carray:
            seen = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else array
            wanted = "in a structure" if shape is None else f"of shape {shape}"
            raise ValueError(
                f"tapegrad.compile: out for argument {number}, {wanted}, is {seen}; it must be a "
                f"writable {dtype} array in C order of the same shape"
            )
        others = [*map(value_of, args), *arrays]
        if sum(np.may_share_memory(array, x) for x in others if isinstance(x, np.ndarray)) > 1:
            raise ValueError(
                f"tapegrad.compile: out for argument {number} shares memory with an argument or "
                "another out; give it memory of its own"
            )
    return dict(zip(numbers, arrays, strict=True))
