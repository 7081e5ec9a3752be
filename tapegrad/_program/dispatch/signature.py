"""Arguments of a compiled function: which are inputs, and what makes calls alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..._core.codegen.layout import LEAF
from ..._core.tape.sweeps import copied, copy_axes
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import copy_tensor
from ..._core.tensor.plain_data import kind_of_number
from ..._core.tensor.pytree import (
    LEAVES,
    fields_of,
    is_complex_leaf,
    is_fixed,
    items_of,
    refuse_computed_fields,
    repeats,
    tree_build,
    tree_leaves,
    users_container,
)
from ..._core.tensor.values import (
    differentiates,
    is_container,
    is_recorded,
    is_tensor,
    plain_array,
    value_of,
)
from ..._derivatives.inputs import not_a_number
from ..ir.steps import DOUBLE
from ..replay.operation_parts import LARGEST, holds

_FLOAT32 = np.dtype(np.float32)
#: What stands for the memory order of data without axes that are NumPy's, and no Python floats.
NUMPYS = ("number", "array")
_NO_NUMBERS = (bool, str, bytes, type(None))
_STATIC = (int, *_NO_NUMBERS)


def own_copy(tree, kept: dict | None = None):
    """Arguments with arrays of their own: what a function writes to them is not visible outside.

    With `kept`, as of `tree_build`, one object stays one.
    """
    return tree_build(tree, iter([_own(value) for _, value in tree_leaves(tree)]), kept)


def _own(value):
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    if type(value) is not rt.Array:
        return value
    if not is_recorded(value):
        return rt.wrap(value._array.copy(order="K"))
    return copy_tensor(value, "K") if differentiates(value) else value


def structure(tree):
    """The containers of an argument, to be compared."""
    if is_complex_leaf(tree):
        return complex, (None, None)
    if type(tree) in LEAVES:
        return None
    if isinstance(tree, dict):
        return type(tree), tuple([(k, structure(v), kind_of_key(k)) for k, v in tree.items()])
    if isinstance(tree, (tuple, list)):
        return type(tree), tuple(map(structure, items_of(tree)))
    names = fields_of(tree)
    if names is None:
        return None
    pairs = [(name, getattr(tree, name)) for name in names]
    return type(tree), tuple([(k, v if is_fixed(v) else (structure(v),)) for k, v in pairs])


def kind_of_key(key):
    """What tells keys of dicts apart that are equal: 1, True and 1.0, 0.0 and -0.0."""
    kind = type(key)
    if kind is float:
        return kind, str(key)
    return (kind, tuple(map(kind_of_key, key))) if kind is tuple else kind


def trees_apart(trees: Sequence, apart: Collection[int]) -> list:
    """Arguments of which it matters which objects they are, None for those `apart`."""
    return [None if k in apart else tree for k, tree in enumerate(trees)]


class Arguments:
    """The arguments of one call: `key` is equal for calls alike, `values` are those of inputs.

    Floats and arrays are inputs; those under `argnums` are differentiated (there ints count as
    floats), the others are data. Everything else must be the same for a program to be used again.
    `nested` says that an argument is recorded elsewhere, `reason` why there can be no program.
    `dtype` is that of all floats. `same` are arrays and containers that are given more than once;
    arguments `apart` are objects of their own: by default those to be differentiated.
    """

    def __init__(self, args: tuple, kwargs: dict, argnums: tuple[int, ...], apart=None):
        self.names = [*kwargs]
        self.trees = [*args, *kwargs.values()]
        self.count = len(args)
        self.wanted = {self._number(number) for number in argnums} if args else set()
        self.values: list[Any] = []
        self.kinds: list[tuple[np.dtype, tuple, bool]] = []
        self.orders: list[tuple[int, ...] | None] = []  # of inputs, see `copy_axes`
        self.types: list[type] = []  # of inputs, or of their elements
        self.fixed: list[bool] = []  # of inputs, whether a graph is for their lengths alone
        self._numbers: list[int] = []  # of inputs, the argument that each is of
        self.static: list[tuple[bool, Any]] = []  # by leaf: whether it is no input, and its value
        self.nested = False
        self.reason: str | None = None
        self.dtype: np.dtype = DOUBLE
        key = []
        for number, tree in enumerate(self.trees):
            leaves = tree_leaves(tree)
            if number in self.wanted:
                refuse_computed_fields("compile", tree)
            if (kind := users_container(tree)) is not None:
                self.reason = f"an argument is {kind}, whose methods may differ; pass a plain one"
            key.append(
                (structure(tree), *[self._leaf(v, number in self.wanted) for _, v in leaves])
            )
            self._numbers += [number] * (len(self.values) - len(self._numbers))
        self.apart = self.wanted if apart is None else apart
        self.same = repeats(trees_apart(self.trees, self.apart))
        self.key = ((len(args), self.same) if self.same else len(args), *self.names, *key)
        if any(dtype == _FLOAT32 for dtype, _, _ in self.kinds):
            self._convert()

    def _convert(self) -> None:
        """Let all inputs be of float32."""
        self.dtype = _FLOAT32
        for k, ((dtype, _, _), value) in enumerate(zip(self.kinds, self.values, strict=True)):
            if dtype == DOUBLE:
                self.reason = (
                    "arguments are of float32 and of float64, and a program computes in one of them"
                )
            elif dtype.kind in "iu" and np.max(np.abs(value), initial=0.0) > LARGEST[4]:
                self.reason = f"an argument holds integers beyond ±{LARGEST[4]}"
            elif isinstance(value, np.ndarray):
                self.values[k] = np.ascontiguousarray(value, _FLOAT32).reshape(value.shape)

    def keep(self) -> None:
        """Copy the values of inputs for later; the caller may change arrays."""
        copies = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in self.values]
        self.values[:] = copies

    def _number(self, number: int) -> int:
        """The argument that a number of `argnums` names."""
        if not -self.count <= number < self.count:
            raise ValueError(
                f"tapegrad.compile: argnums {number} is out of range, the function got "
                f"{self.count} positional arguments"
            )
        return number % self.count

    def _leaf(self, value, differentiated: bool):
        """Enter a leaf; returns its part of the key."""
        if is_tensor(value):
            self.nested = self.nested or is_recorded(value)
            value = value_of(value)
        if differentiated and is_container(value):
            value = np.asarray(value)
        kind = type(value)
        if kind is float or (differentiated and kind is int) or kind is np.float64:
            return self._input(float(value), DOUBLE, (), differentiated, kind=kind)
        if isinstance(value, (np.ndarray, np.generic)):
            value = plain_array(value) if isinstance(value, np.ndarray) else value
            if value.dtype.kind in "iub" or value.dtype in (DOUBLE, _FLOAT32):
                if not holds(DOUBLE, np.asarray(value)):
                    self.reason = f"an argument holds integers beyond ±{LARGEST[8]}"
                own = _FLOAT32 if value.dtype == _FLOAT32 else DOUBLE
                array = np.ascontiguousarray(value, own).reshape(value.shape)
                order = copy_axes(np.asarray(value))
                kind = value.dtype.type if value.shape else kind
                return self._input(array, value.dtype, value.shape, differentiated, order, kind)
            self.reason = f"an argument has dtype {value.dtype}; pass float64 or float32"
        elif not isinstance(value, _STATIC) and not callable(value):
            self.reason = f"an argument is of type {kind.__name__}"
            if isinstance(value, np.random.Generator):
                self.reason += "; draw outside and pass the draws as arguments"
            elif is_container(value):
                self.reason += "; pass its array"
        self.static.append((True, value))
        return kind, value if self.reason is None else None

    def _input(self, value, dtype: np.dtype, shape, differentiated: bool, order=None, kind=float):
        """Enter an input; returns its part of the key, which tells data without axes apart."""
        if differentiated and dtype.kind == "b":
            self.reason = "an argument to be differentiated is boolean"
        dtype = DOUBLE if differentiated and dtype != _FLOAT32 else dtype
        self.static.append((False, None))
        self.values.append(float(value) if shape == () else value)
        self.kinds.append((dtype, shape, differentiated))
        self.types.append(kind)
        self.orders.append(order)
        self.fixed.append(differentiated)
        if shape == () and not differentiated and kind is not float:
            order = NUMPYS[kind is np.ndarray]
        return dtype.str, shape, differentiated, order

    def fix_lengths_of(self, argnums: tuple[int, ...]) -> None:
        """Let graphs be for the lengths of these arguments alone; others may change with calls."""
        wanted = {number % self.count for number in argnums}
        self.fixed = [number in wanted for number in self._numbers]

    def record(self, trace) -> list[tuple[Any, bool]]:
        """The inputs as recorded tensors, and whether they are differentiated.

        Data refuse writes, which would be those of a plain array where nothing is recorded.
        """
        made = []
        inputs = zip(self.values, self.kinds, self.orders, self.types, strict=True)
        for value, (dtype, shape, differentiated), order, kind in inputs:
            if shape == () and dtype == DOUBLE and (differentiated or kind is not np.ndarray):
                tensor = rt.scalar_leaf(value, kind_of_number(kind))
            else:
                array = copied(np.asarray(value), order, dtype)
                array.flags.writeable = differentiated
                tensor = rt.row(LEAF, array)
            if dtype.kind != "f" or not differentiated:
                trace.steering.add(tensor._id)
            if not differentiated:
                trace.data[tensor._id] = kind
            rt.note_input(tensor._id, differentiated, kind if shape == () else None)
            made.append((tensor, differentiated))
        trace.held.extend(tensor for tensor, _ in made)
        return made

    def build(self, inputs: list) -> tuple[list, dict]:
        """The arguments with other values for the inputs."""
        given = iter(inputs)
        made = self.built([value if fixed else next(given) for fixed, value in self.static])
        return made[: self.count], dict(zip(self.names, made[self.count :], strict=True))

    def built(self, leaves: list) -> list:
        """The arguments with other leaves; what is one object stays one."""
        given = iter(leaves)
        kept: dict | None = {} if self.same else None
        return [
            tree_build(tree, given, None if k in self.apart else kept)
            for k, tree in enumerate(self.trees)
        ]

    def call(self, f, values: list, tensors: dict | None = None):
        """The result of a function for other values of the inputs, copied, of the types they had.

        Some of them, by number, are `tensors` instead.
        """
        inputs = zip(values, self.kinds, self.orders, self.types, strict=True)
        made = [_typed(x, dtype, order, kind) for x, (dtype, _, _), order, kind in inputs]
        for k, tensor in (tensors or {}).items():
            made[k] = tensor
        args, kwargs = self.build(made)
        return f(*args, **kwargs)

    def plain(self, argnums: tuple[int, ...]) -> Arguments:
        """The same with values in place of tensors."""
        return self.call(lambda *args, **kwargs: Arguments(args, kwargs, argnums), self.values)

    def inputs(self) -> list:
        """The leaves that are inputs, unchanged."""
        leaves = [leaf for tree in self.trees for _, leaf in tree_leaves(tree)]
        return [leaf for leaf, (fixed, _) in zip(leaves, self.static, strict=True) if not fixed]

    def gradients(self, values: list, argnums: tuple[int, ...], single: bool):
        """Derivatives of the differentiated inputs, in the structure of their arguments."""
        inputs = zip(self.kinds, self.orders, strict=True)
        orders = [order for (_, _, differentiated), order in inputs if differentiated]
        pairs = zip(values, orders, strict=True)
        laid = [x if order is None else copied(x, order) for x, order in pairs]
        return self.in_structure(laid, argnums, single)

    def in_structure(self, values: list, argnums: tuple[int, ...], single: bool):
        """Something for each differentiated input, in the structure of the arguments."""
        given = iter(values)
        try:
            built = {
                k: tree_build(tree, given) for k, tree in enumerate(self.trees) if k in self.wanted
            }
        except (StopIteration, RuntimeError):  # of a generator, if in a list
            raise self._not_numbers() from None
        found = [built[self._number(number)] for number in argnums]
        return found[0] if single else tuple(found)

    def _not_numbers(self) -> TypeError:
        """The error of a leaf to be differentiated that is no number."""
        leaves = [leaf for k in sorted(self.wanted) for leaf in tree_leaves(self.trees[k])]
        wrong = [leaf for leaf in leaves if isinstance(leaf[1], _NO_NUMBERS)]
        return not_a_number("compile", *wrong[0])

    def by_input(self, found, argnums: tuple[int, ...], single: bool) -> dict[int, Any]:
        """By the number of each differentiated input what `in_structure` has put together."""
        numbers = map(self._number, argnums)
        trees = dict(zip(numbers, [found] if single else found, strict=True))
        inputs = [k for k, number in enumerate(self._numbers) if number in trees]
        leaves = [leaf for number in sorted(trees) for _, leaf in tree_leaves(trees[number])]
        return dict(zip(inputs, leaves, strict=True))


def is_float(value) -> bool:
    """Whether a number, an array or a tensor is of float64."""
    value = value_of(value)
    return isinstance(value, (float, np.ndarray)) and np.asarray(value).dtype == DOUBLE


def _typed(value, dtype: np.dtype, order, kind: type):
    """A copy of a number or an array, of a dtype and in a memory order, or of a type."""
    if type(value) is float and dtype == DOUBLE and kind in (float, int):
        return value
    made = copied(np.asarray(value), order, dtype)
    return made if kind is np.ndarray else made[()]
