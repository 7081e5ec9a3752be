"""Rows of the tape read as operations on tensors, and the namespace of the rules."""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.codegen.vector_math import refuse
from .._core.operations import PUBLIC
from .._core.operations.einsum import shown
from .._core.ops.elementwise_text import ElementwiseText
from .._core.ops.table import Pointwise, find
from .._core.tape import store
from .._core.tape.sweeps import add_to_windows, copy_axes, covering, inverse, memory_axes
from .._core.tape.tape import (
    USED_UP,
    Reader,
    array_at,
    bounds,
    cell_of,
    constant_of,
    name_of_row,
    object_at,
    operation_of,
)
from .._core.tape.workspace import UnknownError
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import copy_tensor, link, pack, view_like
from .._core.tensor.runtime import silence
from .._core.tensor.trace import steered
from .._core.tensor.values import (
    FLOATS,
    array_of,
    dtype_of,
    is_recorded,
    is_tensor,
    records,
    shape_of,
    value_of,
)

# --- tape traversal -------------------------------------------------------------------------------
# Rows of the tape read as operations on tensors, with past values and layouts of buffers.


# --- Rows of the tape read as operations on tensors, for derivatives written as rows --------------
# Common parts of traversals of the tape in either direction: the operands of a row, the buffer that
# it owns, and the partial derivatives of the table evaluated on tensors.


def _select(condition, x, y):
    """The rule's `select`: by value where the condition is one, else recorded."""
    if isinstance(condition, (bool, np.bool_)):
        return x if condition else y
    return PUBLIC["where"](condition, x, y)


class _Functions(types.SimpleNamespace):
    """Functions by name: those that are public, and other declared ones."""

    def __getattr__(self, name: str):
        refuse(f"np.{name}()")
        if not isinstance(find(name), Pointwise):
            raise AttributeError(name)
        vars(self)[name] = made = functools.partial(apply, name)
        return made


_FUNCTIONS = {name: PUBLIC[name] for name in PUBLIC.early()}  # element-wise ones among them
_NAMES = {"np": _Functions(**_FUNCTIONS), "select": _select}


@functools.lru_cache(4096)
def _compiled(declaration: Pointwise, wanted: tuple[int, ...] | None, form: Callable[[str], str]):
    lines: list[str] = []
    text = ElementwiseText(declaration, lines.append)
    found = [text.value()] if wanted is None else text.formed(wanted, form).values()
    made = f"[{', '.join(found)}]"
    return compile("\n".join(lines), made, "exec"), compile(made, made, "eval")


def beside(dtype: np.dtype, operand):
    """An operand as it was computed with: a number of Python's took the dtype of the result."""
    return dtype.type(operand) if type(operand) is np.float64 else operand


def evaluate(declaration, values, wanted=None, form=str) -> list:
    """The partial derivatives by some inputs, or the value, with the values of names in a mapping.

    `form` is applied to partial derivatives, as in `ElementwiseText.formed`. The mapping gets the
    values of the steps that they read.
    """
    steps, made = _compiled(declaration, wanted, form)
    with silence():
        exec(steps, _NAMES, values)  # the texts are the table's
        return eval(made, _NAMES, values)


def tensor_at(number: int, array=None, value: float = 0.0):
    """A tensor on a recorded row: its scalar, or a view of its buffer."""
    chunk = int(store.table[number >> layout.ROWS_BITS])
    if array is None:
        return rt.scalar_at(value, number, chunk)
    return rt.attach(rt.wrap(array), number, chunk)


def placed(memory: np.ndarray, base: np.ndarray, view: np.ndarray, *lead: int) -> np.ndarray:
    """The part of `memory` that `view` is of `base`.

    `memory` has the layout of `base`, `lead` times consecutively if that is given; then the result
    has that axis first.
    """
    low, high = bounds(base)
    alike = memory.flags.c_contiguous or (not lead and memory.strides == base.strides)
    fits = alike and memory.dtype == base.dtype == view.dtype
    if not fits or (base.size and memory.nbytes != math.prod(lead) * (high - low)):
        raise AssertionError("memory that is not laid out as the buffer whose view is wanted")
    shape = (*lead, *view.shape)
    if not view.size:
        return np.ndarray(shape, memory.dtype, covering(memory))
    offset = view.__array_interface__["data"][0] - low
    strides = (*[high - low for _ in lead], *view.strides)
    return np.ndarray(shape, memory.dtype, covering(memory), offset, strides)


class Traversal:
    """Rows, by number, with the arrays and operands that they have."""

    def __init__(self, stops):
        self.reader = Reader()
        self.stops = set(stops)

    def base(self, number: int):
        """The array of a row, None where its value is a scalar, such as that of a sum."""
        return self.reader.base(number)

    def shape(self, number: int) -> tuple[int, ...]:
        base = self.base(number)
        return () if base is None else base.shape

    def number(self, number: int) -> np.float64:
        """The value of a scalar row."""
        return np.float64(self.reader.row(number)["value"])

    def operation(self, number: int) -> tuple[str, Any]:
        """The name of a row's operation and its declaration, if it has one."""
        return name_of_row(self.reader, number), operation_of(int(self.reader.row(number)["op"]))

    def read(self, number: int) -> list:
        """Operands of a row, then its output, as (row, what).

        A view of the row's array, or None for a scalar row; the row of a constant is −1.
        """
        row = self.reader.row(number)
        op = abs(int(row["op"]))  # another thread's pass may use it up meanwhile
        if op > layout.ARRAY:
            return [self.referred(*reference) for reference in self.reader.references(number)]
        if op == layout.LOAD:
            return [self._cell(row), (number, None)]
        if op == layout.STORE:
            return [self._cell(row), (-1, np.float64(row["value"])), self._stored(int(row["c"]))]
        kind = op & 3
        operands: list = [(int(row["a"]), None)]
        if kind == layout.ROW_ROW and row["b"] >= 0:
            operands.append((int(row["b"]), None))
        elif kind == layout.ROW_CONSTANT:
            operands.append((-1, np.float64(constant_of(row))))
        elif kind == layout.CONSTANT_ROW:
            operands.insert(0, (-1, np.float64(constant_of(row))))
        return [*operands, (number, None)]

    def _cell(self, row) -> tuple[int, np.ndarray]:
        """The cell that a LOAD or STORE names."""
        source = int(row["a"])
        return source, cell_of(self.base(source), int(row["b"]))

    def _stored(self, source: int) -> tuple[int, Any]:
        """The value of a STORE."""
        if source < -1:
            raise RuntimeError(USED_UP)
        number = int(self.reader.row(source)["op"]) == layout.NUMBER
        return (-1, self.number(source)) if number else (source, None)

    @staticmethod
    def referred(what, source, tag):
        source, tag = int(source), int(tag)
        if source < -1:  # the value of a write, once a sweep has passed it
            raise UnknownError if source == layout.UNKNOWN else RuntimeError(USED_UP)
        if tag == layout.TAG_ARRAY:
            return source, array_at(int(what))
        if tag == layout.TAG_SCALAR:
            return source, None
        if tag == layout.TAG_CONSTANT:
            return -1, np.int64(what).view(np.float64)
        if tag == layout.TAG_OBJECT:
            return -1, object_at(int(what))
        return -1, int(what)

    def tensor(self, source: int, what):
        """A result of `read` as a tensor on its row; constants unchanged."""
        if source < 0:
            return what
        return tensor_at(source, what, 0.0 if what is not None else float(self.number(source)))

    def value(self, number: int, source: int, what):
        """The operand that a row has read from another, as a tensor."""
        return self.tensor(source, what)

    def operands(self, number: int) -> list:
        """Operands and output of a row as (row, tensor), (−1, constant) for what has none."""
        return [(source, self.tensor(source, what)) for source, what in self.read(number)]

    def output(self, number: int):
        """The value of a row as a tensor on it."""
        return self.tensor(number, self.base(number))


# --- Adjoints and tangents laid out in memory as the buffers that they belong to ------------------
# A view of a buffer is found in other memory by its place in the buffer (`tape_traversal.placed`).
# So the memory must have elements of the buffer's dtype, in its order: buffers of operations are in
# C order, those of inputs in any.


def of_input(adjoint, base, tensor):
    """The adjoint of the row of an input, as one of the input, in its memory order.

    `base` is the row's array, None for a scalar; the input is all of it, transposed perhaps.
    """
    if adjoint is None or base is None:
        return adjoint
    if not is_tensor(adjoint) or adjoint.shape != base.shape:
        adjoint = PUBLIC["broadcast_to"](adjoint, base.shape)
    axes = () if rt.same_place(tensor._array, base) else memory_axes(tensor._array)
    adjoint = PUBLIC["transpose"](adjoint, inverse(axes)) if axes else adjoint
    wanted = copy_axes(tensor._array)
    if memory_axes(array_of(adjoint)) == wanted:
        return adjoint
    adjoint = adjoint if wanted is None else PUBLIC["transpose"](adjoint, wanted)
    made = copied(adjoint)
    return made if wanted is None else PUBLIC["transpose"](made, inverse(wanted))


def of_row(seed, base, tensor):
    """The tangent of an input, directions first, as one of the row of the input."""
    if base is None or rt.same_place(tensor._array, base):
        return seed
    axes = memory_axes(tensor._array)
    return PUBLIC["transpose"](seed, (0, *[1 + axis for axis in axes]))


def cast(derivative, dtype):
    """An adjoint or tangent in the dtype of its value; a conversion is recorded."""
    if dtype_of(derivative) == dtype:
        return derivative
    return derivative.astype(dtype) if is_tensor(derivative) else np.asarray(derivative, dtype)


def zeros_for(base: np.ndarray, *lead: int) -> np.ndarray:
    """Memory for a buffer, `lead` times: of its shape if it is in C order, else without axes."""
    if base.flags.c_contiguous:
        return np.zeros((*lead, *base.shape), base.dtype)
    low, high = bounds(base)
    return np.zeros((*lead, (high - low) // base.itemsize), base.dtype)


def seen_as(derivative, base: np.ndarray, view: np.ndarray, *lead: int):
    """An adjoint or tangent of the row that owns `base`, seen through a view of it.

    `lead` is the length of an axis in front, of several adjoints or directions.
    """
    derivative, shape = cast(derivative, base.dtype), (*lead, *base.shape)
    if shape_of(derivative) != shape:
        derivative = PUBLIC["broadcast_to"](derivative, shape)
    if not base.flags.c_contiguous:
        full = _laid_out(derivative, base, *lead)
    elif type(derivative) is rt.Scalar or not array_of(derivative).flags.c_contiguous:
        full = copied(derivative)
    else:
        full = derivative
    return shown(full, placed(array_of(full), base, view, *lead))


def copied(derivative):
    """The same in separate memory, in C order."""
    return copy_tensor(derivative) if is_tensor(derivative) else np.array(derivative, order="C")


def _laid_out(derivative, base: np.ndarray, *lead: int):
    """The elements of a derivative in the order of a buffer that is not in C order."""
    out = zeros_for(base, *lead)
    place = placed(out, base, base, *lead)
    place[...] = array_of(derivative)
    return link(out, [(derivative, place)]) if records(derivative) else rt.wrap(out)


def in_zeros(base: np.ndarray, view: np.ndarray, adjoint):
    """The adjoint of a view of a buffer as one of the buffer."""
    repeated = tuple(k for k, s in enumerate(view.strides) if s == 0 and view.shape[k] > 1)
    if repeated:
        adjoint = PUBLIC["sum"](adjoint, axis=repeated, keepdims=True)
        view = view[tuple(slice(0, 1) if k in repeated else slice(None) for k in range(view.ndim))]
    out = zeros_for(base)
    part = placed(out, base, view)
    adjoint = PUBLIC["broadcast_to"](adjoint, view.shape)
    adjoint = cast(pack(adjoint) if type(adjoint) is rt.Scalar else adjoint, base.dtype)
    add_to_windows(part, value_of(adjoint))
    made = link(out, [(adjoint, part)]) if records(adjoint) else rt.wrap(out)
    return made if base.flags.c_contiguous else view_like(made, placed(out, base, base))


def joined(base: np.ndarray, pairs):
    """The tangent of the row that owns `base`: the sum of tangents, each for a view of it."""
    count = len(value_of(pairs[0][0]))
    out = np.zeros((count, *base.shape), base.dtype)
    linked = []
    for tangent, view in pairs:
        tangent = cast(tangent, base.dtype)
        place = placed(out, base, view, count)
        repeated = [k for k, s in enumerate(place.strides) if s == 0 and place.shape[k] > 1]
        if repeated:
            tangent = PUBLIC["sum"](tangent, axis=tuple(repeated), keepdims=True)
            key = [slice(0, 1) if k in repeated else slice(None) for k in range(place.ndim)]
            place = place[tuple(key)]
        add_to_windows(place, array_of(tangent))
        linked.append((tangent, place))
    return link(out, linked) if records(*[t for t, _ in linked]) else out


# --- Traversals of rows that find past values of buffers, at the time of each row -----------------
# A buffer that has been written since is copied when its values are first needed, and the newer
# writes are undone in the copy; they are repeated there as the traversal proceeds. The memory of
# the user's tensors is not changed.


class _Past:
    """A buffer as it was: a copy, and the writes that are not in it, oldest last."""

    def __init__(self, memory: np.ndarray):
        self.memory = memory
        self.newer: list[tuple[int, np.ndarray]] = []  # the row, and the value that it wrote


class Rewound(Traversal):
    """Rows with the values that they had read."""

    def __init__(self, stops):
        super().__init__(stops)
        self.now = -1  # the current row of the traversal
        self._pasts: dict[int, _Past] = {}

    def then(self, source: int, what):
        """The result of `read` as a plain value, at the time of the current row."""
        if source < 0:
            return what
        if what is None:
            return self.number(source)
        past = self._past(source)
        return what if past is None else placed(past.memory, self.base(source), what)

    def wrote(self, number: int) -> np.ndarray:
        """The value written by the current row of the traversal, which is a write."""
        past = self._past(self.reader.buffer_written(number))
        assert past is not None
        return past.newer[-1][1]

    def key(self, number: int, view: np.ndarray) -> tuple:
        """The key by which a write writes its view: all of it, or picked elements."""
        _, (_, kept), _, *picked = self.read(number)
        if not picked or not view.ndim:  # the one element without axes has no indices
            return (...,)
        positions = np.asarray(picked[0][1], np.int64)
        rows = view.shape[: view.ndim - (kept.ndim - positions.ndim)]
        return np.unravel_index(positions, rows)

    def _past(self, buffer: int) -> _Past | None:
        """The buffer as it was, None if it is so still."""
        past, now = self._pasts.get(buffer), self.reader.time(self.now)
        if past is None:
            writes = self.reader.writes(buffer)
            if not writes or self.reader.time(writes[-1]) < now:
                return None
            past = self._pasts[buffer] = _Past(self._copy(buffer))
            for number in reversed(writes):
                if self.reader.time(number) < now:
                    break
                place, key = self._place(buffer, number)
                past.newer.append((number, place[key].copy()))
                place[key] = self.read(number)[1][1]
        while past.newer and self.reader.time(past.newer[-1][0]) < now:
            number, after = past.newer.pop()
            place, key = self._place(buffer, number)
            place[key] = after
        return past

    def _copy(self, buffer: int) -> np.ndarray:
        base = self.base(buffer)
        low, high = bounds(base)
        memory = np.zeros((high - low) // base.itemsize if base.size else 0, base.dtype)
        placed(memory, base, base)[...] = base
        return memory

    def _place(self, buffer: int, number: int) -> tuple[np.ndarray, tuple]:
        """The place that a row writes in the copy of a buffer."""
        view = self.read(number)[0][1]
        return placed(self._pasts[buffer].memory, self.base(buffer), view), self.key(number, view)


class Before(Rewound):
    """One row in a sweep that has passed newer ones, with the values that it had read.

    The values written by those rows are not known any more, the replaced ones are.
    """

    def at(self, number: int) -> Before:
        """The same traversal at another row; found values are kept only from call to call."""
        self.now = number
        self._pasts = {}
        return self

    def value(self, number: int, source: int, what):
        """The operand that a row has read from another, as a plain value."""
        return self.then(source, what)

    def _stored(self, source: int) -> tuple[int, Any]:
        return super()._stored(source) if source >= 0 else (-1, None)

    @staticmethod
    def referred(what, source, tag):
        return Rewound.referred(what, max(int(source), -1), tag)


# --- rule namespace -------------------------------------------------------------------------------
# The namespace of the rules of declarations: NumPy, 0 times infinity, what else it lacks.


# --- 0 times infinity in derivatives that are recorded --------------------------------------------
# An adjoint of 0 times an infinite partial derivative is 0. Outside of traces the values decide
# where this applies. A traced program has other values later; a test at every product would be slow
# and hardly ever matters. Therefore derivatives are recorded with plain products, and the program
# checks that they hold no NaN. If they do, another variant is recorded, which tests each product
# (`Trace.careful`).


def _is_traced(x, y) -> bool:
    """Whether a program that is being traced computes a product again."""
    return rt.trace() is not None and (is_recorded(x) or is_recorded(y))


def _is_complex(x) -> bool:
    return dtype_of(x).kind == "c"


def _is_plain(x, y, seen) -> bool:
    """Whether x times y is recorded as a plain product, `seen` being infinite otherwise."""
    if _is_complex(x) or _is_complex(y):
        return True
    if _is_traced(x, y):
        return rt.trace().careful is False
    values = array_of(seen)
    return math.isfinite(np.vdot(values, values))  # an overflow only selects the slower variant


def product(adjoint, partial):
    """Adjoint times partial derivative, 0 where the adjoint is exactly 0."""
    if _is_plain(adjoint, partial, partial):
        return adjoint * partial
    return adjoint * PUBLIC["where"](_lost(adjoint, partial), 0.0, partial)


def symmetric_product(tangent, partial):
    """Tangent times partial derivative, 0 where either is exactly 0."""
    made = tangent * partial
    if _is_plain(tangent, partial, made):
        return made
    where = PUBLIC["where"]
    lost = steered(operator.or_, _lost(tangent, partial), _lost(partial, tangent))
    return where(lost, 0.0, tangent) * where(lost, 0.0, partial)


def _lost(factor, other):
    """The places where a factor is 0 and the other one infinite or NaN."""
    zero = steered(operator.eq, factor, 0.0)
    return steered(np.logical_and, zero, steered(np.logical_not, steered(np.isfinite, other)))


def settled(derive: Callable[[], list]) -> list:
    """The recorded derivatives that `derive` gives; in a trace, for all values of a program."""
    trace = rt.trace()
    if trace is None or trace.careful is not None:
        return derive()
    try:
        trace.careful = False
        found = derive()
        if _holds_nan(trace, found):
            trace.careful = True
            found = derive()
        return found
    finally:
        trace.careful = None


def _holds_nan(trace, found: list) -> bool:
    """Whether derivatives hold a NaN, or infinities; the program checks whether they do."""
    parts = [part for part in found if is_recorded(part) and dtype_of(part) in FLOATS]
    if not parts:
        return False
    total = sum([PUBLIC["sum"](part * 0.0) for part in parts[1:]], PUBLIC["sum"](parts[0] * 0.0))
    bad = steered(np.isnan, total)
    trace.learn(bad, "whether a derivative is NaN or infinite")
    return bool(array_of(bad))


# --- The namespace of the rules of declarations: NumPy, and functions that it lacks ---------------
# NumPy's functions serve every reading, since tensors answer its protocols.


class Namespace:
    """NumPy's functions by their names, and `times`, the product of a derivative and a partial."""

    def __init__(self, times: Callable):
        self.times = times

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)  # found at once from now on
        return found

    @staticmethod
    def seen_as(derivative, base, view):
        """An adjoint of a view, or several, of the array `base`."""
        return seen_as(derivative, base, view, *derivative.shape[: derivative.ndim - base.ndim])

    #: Tangents of views of an array, combined to those of the array.
    joined = staticmethod(joined)

    @staticmethod
    def may_hold_zeros(x) -> bool:
        """Whether an element is 0, or may be when a program that is traced computes it.

        The one test of values in rules: its result does not matter where the rule is used for
        others.
        """
        return rt.trace() is not None or not np.all(array_of(x))


#: An adjoint of 0 passes on 0, however steep the partial derivative.
REVERSE = Namespace(product)
#: So does a tangent of 0; a partial derivative of 0 does for every tangent.
FORWARD = Namespace(symmetric_product)
