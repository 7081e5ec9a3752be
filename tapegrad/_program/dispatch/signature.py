"""Arguments of a compiled function: which are inputs, and the recording made a program."""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.codegen.layout import LEAF
from ..._core.tape.sweeps import copied, copy_axes, memory_of
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import copy_tensor
from ..._core.tensor.dependencies import Dependencies
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
from ..._core.tensor.trace import Trace
from ..._core.tensor.values import (
    FLOATS,
    differentiates,
    is_container,
    is_recorded,
    is_tensor,
    plain_array,
    value_of,
)
from ..._derivatives.inputs import not_a_number
from ..._flow.reading import outside_uses
from ..._flow.reading.outside_uses import NOTHING, RECORDED, UNSURE, DerivedUse, Items, KnownObject
from ..ir.steps import DOUBLE, Code
from ..lowering.lower import Converter
from ..lowering.tape_rows import Unsupported
from ..passes.memory_reuse import LARGE, put_down
from ..passes.pipeline import Account, optimised
from ..replay.operation_parts import LARGEST, holds

# --- signature ------------------------------------------------------------------------------------
# Arguments of a compiled function: which are inputs, and what makes calls alike.

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


# --- conversion -----------------------------------------------------------------------------------
# A recording made an optimised program.


def converted(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    dtype: np.dtype,
    without: tuple[str, ...],
) -> tuple[Code, Account]:
    """The program of a trace, and its history; see `Converter` and `optimised`."""
    converter = Converter(inputs, end, outputs, trace, dtype)
    return optimised(converter.convert(outputs), *converter.counts(), without)


def converted_in_place(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    in_place: ArraysInPlace,
    without: tuple[str, ...],
) -> tuple[Code, Account] | None:
    """The same with arrays from outside that are read where they lie; None if they cannot be."""
    try:
        converter = Converter(inputs, end, outputs, trace, in_place.dtype, outside=in_place)
        code = converter.convert(outputs)
    except Unsupported:
        return None
    if not in_place.agrees(converter.in_place.rows):
        return None
    made, account = optimised(code, *converter.counts(), without)
    found = put_down(made, in_place.roots)
    return None if found is None else (found, account)


# --- which large arrays from outside a recording may read where they lie, and not as constants ----


#: Types of arguments that are followed; of dicts and sequences those of their items.
_LEAVES = (bool, int, float, str, type(None), np.ndarray, np.float64, np.float32)


def root_of(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """The memory of a large array in one piece, in C order; None for others."""
    found = array if array.flags.c_contiguous else array.T
    fits = found.dtype == dtype and found.flags.aligned and found.flags.c_contiguous
    return found if fits and found.size >= LARGE else None


class ArraysInPlace:
    """Arrays that a call only hands to recorded operations, and the memory that they lie in.

    `counts` has for each way through the function how many operations read each of the `roots`, and
    each of what is `derived` from them, numbered from −1 down. `others` may lie in no such memory.
    """

    def __init__(self, uses: outside_uses.Uses, given: Sequence[np.ndarray], dtype: np.dtype):
        self.dtype = dtype
        self.roots: Sequence[np.ndarray] = []
        self.arrays: list[np.ndarray] = []
        pairs = [(one, root_of(one, dtype)) for one in uses.clean]
        found = [(one, root) for one, root in pairs if root is not None]
        for array, root in sorted(found, key=lambda pair: -pair[1].size):
            meets = [k for k, one in enumerate(self.roots) if np.may_share_memory(one, root)]
            if not meets:
                meets, self.roots = [len(self.roots)], [*self.roots, root]
            elif len(meets) > 1 or not _is_inside(root, self.roots[meets[0]]):
                continue
            self.arrays.append(array)
        self.others = given
        self.derived: Sequence[DerivedUse] = []
        self.counts = [collections.Counter(self._numbers(way)) for way in uses.ways]

    def _numbers(self, way: Sequence[tuple]) -> Iterator[int]:
        """What each operation of a way reads: numbers of roots, and of what is derived."""
        for operands in way:
            yield from {number for one in operands for number in self._number(one)}

    def _number(self, operand) -> Iterator[int]:
        is_derived = isinstance(operand, DerivedUse)
        array = operand.array if is_derived else operand.value
        for k, root in enumerate(self.roots):
            if np.may_share_memory(root, array) and not is_derived:
                yield k
            elif np.may_share_memory(root, array):
                same = [-1 - k for k, x in enumerate(self.derived) if _are_same(x, operand)]
                self.derived = [*self.derived, *([] if same else [operand])]
                yield same[0] if same else -len(self.derived)

    def agrees(self, rows: collections.Counter) -> bool:
        """Whether so many operations by root are those of each of the ways."""
        return all([rows == way for way in self.counts])


def _is_inside(array: np.ndarray, whole: np.ndarray) -> bool:
    """Whether an array in C order lies in another one."""
    first = memory_of(array) - memory_of(whole)
    return 0 <= first <= first + array.nbytes <= whole.nbytes


def _are_same(one: DerivedUse, other: DerivedUse) -> bool:
    """Whether two forms are the same function of the same operands."""
    places = [
        [_place(x.value) if isinstance(x.value, np.ndarray) else (x.value,) for x in form.operands]
        for form in (one, other)
    ]
    return one.function is other.function and places[0] == places[1]


def _place(array: np.ndarray) -> tuple:
    return memory_of(array), array.shape, array.strides


def arrays_in_place(f: Callable, arguments: Arguments, names: Dependencies) -> ArraysInPlace | None:
    """Those of a call that is to be recorded; None where there are none, or none are known."""
    every = [one.owner for one in names.compared()]
    given = [one for one in every if type(one) is np.ndarray]
    if not any([root_of(one, arguments.dtype) is not None for one in given]):
        return None
    leaves = iter(arguments.static)
    forms = [_form(tree, leaves) for tree in arguments.trees]
    named = dict(zip(arguments.names, forms[arguments.count :], strict=True))
    uses = outside_uses.shown(f, forms[: arguments.count], named, given)
    if uses is None:
        return None
    found = ArraysInPlace(uses, given, arguments.dtype)
    return found if found.arrays else None


def _form(tree, leaves: Iterator[tuple[bool, object]]):
    """An argument as a form; what is no number, array, tuple or list, is not followed."""
    if type(tree) in (tuple, list):
        return Items(tuple([_form(one, leaves) for one in tree]))
    own = [next(leaves) for _ in tree_leaves(tree)]
    if type(tree) is dict:
        return UNSURE if any([is_fixed for is_fixed, _ in own]) else RECORDED
    if type(tree) not in _LEAVES:
        return NOTHING
    ((is_fixed, value),) = own
    is_sure = type(tree) is float or getattr(tree, "dtype", None) in FLOATS
    return KnownObject(value) if is_fixed else RECORDED if is_sure else UNSURE
