"""A function recorded on one element of a batch, and its rows computed for a whole batch."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.codegen import layout
from .._core.codegen.layout import ARRAY, LEAF, OF_EITHER, OF_NUMPY
from .._core.operations import PUBLIC
from .._core.operations.creation import converted
from .._core.operations.cumulative import same_shape
from .._core.operations.declaring import recorded
from .._core.operations.einsum import in_c_order
from .._core.operations.reductions import reduced
from .._core.ops.call_rows import COMPUTED
from .._core.ops.elementwise import STEERING
from .._core.ops.table import Pointwise, Site, Structural
from .._core.tape import store
from .._core.tape.sweeps import add_to_windows, copied, copy_axes, memory_axes
from .._core.tape.tape import USED_UP, Reader, cell_of, operation_of
from .._core.tensor import copies
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import link
from .._core.tensor.operators import places
from .._core.tensor.plain_data import answering, origin
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.registry import declared_by
from .._core.tensor.runtime import silence
from .._core.tensor.trace import (
    OF_EACH,
    SHARED,
    CustomCall,
    Guard,
    NumpyCall,
    Trace,
    is_differentiated,
    named,
    steered,
)
from .._core.tensor.values import FLOATS, array_of, is_recorded, is_tensor, shape_of, value_of
from .._derivatives.forward_mode import aligned
from .._derivatives.recorded_reverse import site_of, without_writes
from .._derivatives.tape_traversal import Namespace, evaluate, placed, product, tensor_at
from .._program.lowering.builder import Originals

# --- agreement ------------------------------------------------------------------------------------
# Comparison of results for a batch with the results of the function for an element.

#: Relative tolerances of results, in terms of the largest number: in double precision, and where
#: single precision is involved.
DOUBLE, SINGLE = 1e-9, 1e-5
#: Units in the last place by which arguments are changed to measure the effect of rounding, and the
#: factor by which two methods of computation may differ.
_MOVES, _MARGIN = (4.0, 32.0, 256.0), 100.0


def first_difference(found: list, wanted: list, again: Callable, scale: Callable) -> int:
    """The first of the results `found` that differs from `wanted` beyond rounding; −1 if none.

    `again` calls the function with arguments changed by units in the last place, and returns its
    results. `scale` gives the relative tolerance of results, and the largest number that the
    function meets. Both are called only if results seem to differ: if terms cancel, a result does
    not show their size.
    """
    pairs = [(array_of(a), array_of(b)) for a, b in zip(found, wanted, strict=True)]
    differing = [k for k, pair in enumerate(pairs) if not _agree(*pair, DOUBLE, 0.0)]
    if not differing:
        return -1
    part, largest = scale()
    differing = [k for k in differing if not _agree(*pairs[k], part, 0.0)]
    if not differing:
        return -1
    noises = _noises(again, [b for _, b in pairs])
    noises = [min(_MARGIN * noise, part * largest) for noise in noises]
    return next((k for k in differing if not _agree(*pairs[k], part, noises[k])), -1)


def _agree(a: np.ndarray, b: np.ndarray, part: float, noise: float) -> bool:
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind != "f":
        return a.dtype == b.dtype and bool(np.array_equal(a, b))
    most = part * np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) + noise
    return bool(np.allclose(a, b, rtol=part, atol=most, equal_nan=True))


def _noises(again: Callable, first: list) -> list[float]:
    """The effect of rounding on each result; 0 for a function that is not deterministic."""
    if any(_apart(again(0.0), first)):
        return [0.0] * len(first)
    most = np.zeros((2, len(first)))
    for k, sign in enumerate((1.0, -1.0)):
        for move in _MOVES:
            most[k] = np.maximum(most[k], _apart(again(sign * move), first))
    return most.min(axis=0).tolist()


def _apart(found: list, first: list) -> list[float]:
    """The distance between results; none if they have different structures."""
    found = [array_of(one) for one in found]
    if [one.shape for one in found] != [one.shape for one in first]:
        return [0.0] * len(first)
    return [_distance(a, b) for a, b in zip(found, first, strict=True)]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    if a.dtype.kind != "f":
        return 0.0
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a[both] - b[both]), initial=0.0))


def moved(value, units: float):
    """Floats moved by some units in the last place, each by another number of them."""
    value = np.asarray(value)
    if value.dtype.kind != "f" or not units:
        return value
    draws = np.random.default_rng(0).random(value.shape)
    return (value * (1.0 + np.sign(value) * units * np.finfo(value.dtype).eps * draws)).astype(
        value.dtype
    )


def difference(a, b) -> str:
    """The difference between the result of an element by itself and that in a batch, in words."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        one, other = (f"{x.dtype} of shape {x.shape}" for x in (a, b))
        return f"by itself an element gives {one}, where it is recorded {other}"
    apart = np.abs(a - b) if a.dtype.kind == "f" else a != b
    place = np.unravel_index(np.argmax(apart), a.shape)
    return (
        f"by itself an element gives {a[place]}, in the batch {b[place]}: it depends on something "
        "else than its arguments, such as random numbers or state that changes between calls; pass "
        "that as an argument"
    )


# --- recorded rows --------------------------------------------------------------------------------
# Rows of the store as a batch reads them, and calls without derivative for all elements.


# --- Rows of the store as a batch reads them, each read once: operands, buffers, operations -------
# They are read straight from the memory of their chunks, so that small batches pay off too.


_ROW = struct.Struct("<iiiid")
_REFERENCE = struct.Struct("<qii")
_NUMBER = struct.Struct("<d")
_WORDS = struct.Struct("<ii")
_object = ctypes.py_object.from_address
_REFERENCES = layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES


class RecordedRow(NamedTuple):
    """A row: its word and operation, operands as (row, view, number or object), its own array.

    A constant operand is of row −1; the view of a row of a number is None. `reads` are the rows
    that it reads.
    """

    word: int
    op: Any
    operands: list[tuple[int, Any]]
    base: Any  # an array, or None
    reads: list[int]

    @property
    def name(self) -> str:
        return self.op.name if self.op is not None else "a row"


class RecordedRows:
    """Rows by number."""

    def __init__(self):
        self._rows: dict[int, RecordedRow] = {}

    def __getitem__(self, number: int) -> RecordedRow:
        found = self._rows.get(number)
        if found is None:
            found = self._rows[number] = self._read(number)
        return found

    @staticmethod
    def fields(number: int) -> tuple[int, int, int, int, float]:
        """The word of a row, a, b, c and its value."""
        chunk: Any = store.chunks[number >> layout.ROWS_BITS]
        at = layout.HEADER_BYTES + (number & (layout.ROWS - 1)) * layout.ROW_BYTES
        return _ROW.unpack_from(chunk, at)

    def _read(self, number: int) -> RecordedRow:
        word, a, b, c, _ = self.fields(number)
        if word <= 0:
            raise RuntimeError(USED_UP)
        if word > layout.ARRAY or word in (layout.LEAF, layout.CONSTANT):
            return self._read_array(number, word, a, b)
        if word == layout.LOAD:
            return RecordedRow(word, None, [(a, cell_of(self[a].base, b))], None, [a])
        if word == layout.STORE:
            return RecordedRow(word, None, [], None, [k for k in (a, c) if k >= 0])
        if word < 4 * layout.FIRST_CODE:
            return RecordedRow(word, None, [], None, [])
        return self._read_number(word, a, b, c)

    @staticmethod
    def _read_number(word: int, a: int, b: int, c: int) -> RecordedRow:
        op, kind = operation_of(word), word & 3
        if kind == layout.ROW_ROW:
            reads = [a, b] if b >= 0 else [a]
            return RecordedRow(word, op, [(k, None) for k in reads], None, reads)
        (constant,) = _NUMBER.unpack(_WORDS.pack(b, c))
        operands = [(a, None), (-1, constant)]
        if kind == layout.CONSTANT_ROW:
            operands.reverse()
        return RecordedRow(word, op, operands, None, [a])

    @staticmethod
    def _read_array(number: int, word: int, first: int, count: int) -> RecordedRow:
        chunk: Any = store.chunks[number >> layout.ROWS_BITS]
        start = _REFERENCES + first * layout.REFERENCE_BYTES
        memory = memoryview(chunk)[start : start + count * layout.REFERENCE_BYTES]
        address = chunk.ctypes.data + start
        found: list[tuple[int, Any]] = []
        for what, source, tag in _REFERENCE.iter_unpack(memory):
            if source < -1:
                raise RuntimeError(USED_UP)
            seen: Any = None
            if tag in (layout.TAG_ARRAY, layout.TAG_OBJECT):
                seen = _object(address + len(found) * layout.REFERENCE_BYTES).value
            elif tag == layout.TAG_INT:
                seen = what
            elif tag == layout.TAG_CONSTANT:
                (seen,) = _NUMBER.unpack(what.to_bytes(8, "little", signed=True))
            found.append((source if tag <= layout.TAG_SCALAR else -1, seen))
        op = operation_of(word) if word > layout.ARRAY else None
        if getattr(op, "writes", False):
            found.append((-1, None))  # it has no output
        *operands, (_, base) = found or [(-1, None)]
        reads = [source for source, _ in operands if source >= 0]
        return RecordedRow(word, op, operands, base, reads)


# --------------------------------------------------------------------------------------------------
# Calls without derivative, such as masks and positions, for all elements of a batch at once.
# Calls that work element by element are unchanged, calls along axes have one more in front, others
# are described in `OF_EACH`; the rest is called for each element.


#: Functions that work element by element, beside ufuncs and those that are declared.
_ELEMENTWISE = {
    *(np.isclose, np.asarray, np.array, converted, operator.pos, operator.invert),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
}
#: Functions of one array along axes, the second argument, and which axis it is by default.
_ALONG: dict[Callable, int | None] = {
    **dict.fromkeys((np.sum, np.prod, np.mean, np.var, np.std, np.median, np.ptp)),
    **dict.fromkeys((np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.count_nonzero)),
    **dict.fromkeys((np.cumsum, np.cumprod)),
    **dict.fromkeys((np.sort, np.argsort), -1),
}


def call_of_each(call: NumpyCall, t: list, alone: list, ndim: int):
    """The result of a call for all elements: an array, or a recorded tensor in a trace.

    `t` are its operands with an axis of elements in front, None for one that is the same for all
    and among `alone`; `ndim` is the number of axes of the result for one element.
    """
    given, mapped = [], []
    for is_operand, what in call.arguments:
        one = t[what] if is_operand else None
        mapped.append(one is not None)
        given.append(one if one is not None else alone[what] if is_operand else what)
    function, keywords = call.function, call.keywords
    if _is_elementwise(function):
        pairs = zip(given, mapped, strict=True)
        given = [spread(x, ndim) if is_mapped else x for x, is_mapped in pairs]
        return steered(function, *given, **keywords)
    if function in _ALONG and mapped in ([True], [True, False]) and "where" not in keywords:
        axis = given[1] if len(given) == 2 else keywords.get("axis", _ALONG[function])
        rest = {name: x for name, x in keywords.items() if name != "axis"}
        return steered(_along, given[0], function=function, axis=axis, rest=rest)
    known = OF_EACH.get(function)
    if known is not None:
        return steered(known, *given, mapped=tuple(mapped), **keywords)
    return steered(_each, *given, function=function, mapped=tuple(mapped), keywords=keywords)


def _is_elementwise(function) -> bool:
    if isinstance(function, np.ufunc):
        return function.signature is None and function.nout == 1
    return declared_by(function) is not None or function in _ELEMENTWISE


def spread(value, ndim: int):
    """An operand with the axis of elements first and `ndim` axes after it, for broadcasting."""
    array = value_of(value)
    if array.ndim > ndim:
        return value
    seen = array[(slice(None), *[None] * (ndim + 1 - array.ndim))]
    return rt.view_of(value, seen) if is_tensor(value) else seen


@named("batching.each")
def _each(*values, function, mapped, keywords):
    """A function called for each element."""
    pairs = [*zip(values, mapped, strict=True)]
    count = next(len(x) for x, is_mapped in pairs if is_mapped)
    found = [
        function(*[x[k] if is_mapped else x for x, is_mapped in pairs], **keywords)
        for k in range(count)
    ]
    return np.stack(found)


@named("batching.along")
def _along(x, function, axis, rest):
    """A function along axes of each element; None means all of them, as one."""
    shape = x.shape[1:]
    if axis is not None and shape:
        axes = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(one % len(shape) + 1 for one in axes)
        return function(x, axis=axes if isinstance(axis, tuple) else axes[0], **rest)
    keepdims = rest.get("keepdims", False)
    others = {name: value for name, value in rest.items() if name != "keepdims"}
    made = function(x.reshape(len(x), math.prod(shape)), axis=-1, **others)
    return made.reshape(len(x), *[1] * len(shape)) if keepdims is True else made


# --- element --------------------------------------------------------------------------------------
# A function recorded on one element of a batch: its rows represent those of all elements.

#: So many rows of earlier batches may be left in the store: a look takes a tenth of the time of a
#: small batch.
_ROWS = 1024


class Unbatched(Exception):
    """Why the elements of a batch are not computed together."""


class _ElementTrace(Trace):
    """A trace that knows the user's line at which it was refused."""

    def refuse(self, reason: str, *, faithful: bool = False) -> None:
        for file, line, _ in places(1):
            reason = f"{reason}, at {file}:{line}"
        super().refuse(reason, faithful=faithful)

    def learn_key(self, tensor) -> None:
        raise Unbatched("a value is a key of a dict or a member of a set")

    def repeat(self, row, call: CustomCall) -> None:
        self.refuse(f"it calls {call.name}, which has no batching rule")


class Element:
    """One call of a function: inputs, rows, guards, and `out`, its result.

    `call` takes the mapped arguments, of which `values` are those of the element; `of` are the
    arguments for the whole batch. `order` are the rows that results and guards need, oldest first,
    read in `rows`; those that depend on earlier rows are `outer`.
    """

    def __init__(self, call: Callable, values: list, of: list):
        self.trace = _ElementTrace(lambda: places(1))
        outer = rt.trace()
        self.trace.data = {} if outer is None else {**outer.data}
        are_data = [not is_tensor(one) or origin(one) is not None for one in of]
        rt.start()
        store.collect(_ROWS)
        with rt.recording(), rt.tracing(self.trace):
            first = self.trace.now()
            inputs = zip(values, of, are_data, strict=True)
            self.inputs = [self._input(*one) for one in inputs]
            self.out = self._called(call)
            results = [one for _, one in tree_leaves(self.out) if is_recorded(one)]
            if self.trace.sees_old_values(results):
                self.trace.refuse(SHARED)
            if self.trace.refusal is not None:
                raise Unbatched(self.trace.refusal)
            self.guards: list[Guard] = list(self.trace.guards)
            self.leaves = [leaf for _, leaf in tree_leaves(self.out)]
            self._find_rows(first)

    def _called(self, call: Callable):
        """The result; a refusal that the function has caught counts as an error of it."""
        try:
            with answering(self.trace):
                out, error = call(self.inputs), None
        except Exception as raised:
            out, error = None, raised
        error = rt.take_refusal() or error
        if error is not None:
            raise Unbatched(f"recorded it raises {type(error).__name__}: {error}") from error
        return out

    def _input(self, value: np.ndarray, whole, is_data: bool):
        """An argument as an input."""
        if value.dtype.kind not in "biu" and value.dtype not in FLOATS:
            raise Unbatched(f"an argument has dtype {value.dtype}")
        if value.shape == () and value.dtype == np.float64:
            made = rt.scalar_leaf(float(value), OF_EITHER if is_data else OF_NUMPY)
        else:
            made = rt.row(LEAF, copied(value, copy_axes(value)))
        if value.dtype not in FLOATS:
            self.trace.steering.add(made._id)
        if is_data:
            self.trace.data[made._id] = value.dtype.type
        rt.note_input(made._id, is_tensor(whole) and is_differentiated(whole))
        self.trace.held.append(made)
        return made

    def _find_rows(self, first: int) -> None:
        """The rows of results and guards, recorded again without writes if there are any."""
        recorded = [leaf for leaf in self.leaves if is_recorded(leaf)]
        watched = recorded + [guard.tensor for guard in self.guards]
        reader = Reader()
        self.rows = RecordedRows()
        rows = _Needed(reader, self.rows, [one._id for one in watched], reader.time(first))
        if rows.writes:
            self._check_writes(reader, rows)
            stops = [one._id for one in self.inputs] + [*rows.outside]
            try:
                watched = without_writes(watched, stops)
            except NotImplementedError:
                raise Unbatched(
                    "it writes in place, to an array that is not in C order or beside one from "
                    "outside that was written before; write to a copy() of it"
                ) from None
            reader = Reader()
            self.rows = RecordedRows()
            rows = _Needed(reader, self.rows, [one._id for one in watched], reader.time(first))
        self._originals = Originals([*self.trace.originals.values()])
        self.order, self.outer = rows.order, rows.outer
        self.watched = watched
        made = iter(watched)
        self.results = [next(made) if is_recorded(leaf) else None for leaf in self.leaves]
        self.conditions = list(made)

    def _check_writes(self, reader: Reader, rows: _Needed) -> None:
        """Refuse writes that the whole batch cannot do."""
        mine = {one._id for one in self.inputs}
        for buffer, number in rows.writes:
            if buffer in mine:
                raise Unbatched("it writes to its argument in place; write to a copy() of it")
            if buffer in rows.outside:
                raise Unbatched("it writes in place to a tensor that is not its own")
            for guard in self.guards:
                later = reader.time(number) > reader.time(guard.at)
                if guard.tensor._id == buffer and later:
                    raise Unbatched(f"it writes to what Python has read at {guard}")

    def as_read(self, source: int, array):
        """A constant operand with its value when it was read, before a recorded write."""
        is_constant = source < 0 and isinstance(array, np.ndarray)
        return self._originals.of(array) if is_constant else array

    def scale(self) -> tuple[float, float]:
        """The precision of the values of the rows, and the largest finite one, inputs included."""
        found = [array_of(one) for one in self.inputs]
        for number in self.order:
            base = self.rows[number].base
            found.append(np.asarray(self.rows.fields(number)[4] if base is None else base))
        floats = [one for one in found if one.dtype.kind == "f"]
        sizes = [np.max(np.abs(x), initial=0.0, where=np.isfinite(x)) for x in floats]
        is_single = any(one.dtype == np.float32 for one in floats)
        return SINGLE if is_single else DOUBLE, float(max(sizes, default=0.0))


class _Needed:
    """The rows of a recording that some of its rows need, oldest first.

    `outside` are the rows recorded before `start` that they read, `outer` they and all that depend
    on them, `writes` the (buffer, row) of writes in place.
    """

    def __init__(self, reader: Reader, rows: RecordedRows, numbers: list[int], start: int):
        self.outside: set[int] = set()
        self.writes: list[tuple[int, int]] = []
        found: set[int] = set()
        waiting = [number for number in numbers if number >= 0]
        while waiting:
            number = waiting.pop()
            if number in found or number in self.outside:
                continue
            writes = [k for k in reader.writes(number) if reader.time(k) >= start]
            self.writes += [(number, k) for k in writes]
            waiting += writes
            if reader.time(number) < start:
                self.outside.add(number)
                continue
            found.add(number)
            waiting += rows[number].reads
        self.order = sorted(found, key=reader.time)
        self.outer = set(self.outside)
        for number in self.order:
            if not self.outer.isdisjoint(rows[number].reads):
                self.outer.add(number)


# --- batched rows ---------------------------------------------------------------------------------
# Rows of one element computed for a whole batch, which is an axis in front.
#
# Element-wise rows are those of the table on operands whose axes are aligned. All others follow
# from their declarations: by `batched` where there is one, else by the layout of the row.

_FLOAT64 = np.dtype(np.float64)

# --- what rules compute with ----------------------------------------------------------------------


class _Batching(Namespace):
    """NumPy's functions by name, and the additional functions that batching needs."""

    aligned = staticmethod(aligned)

    @staticmethod
    def repeated(operand, t):
        """An operand that is the same for all elements with the axis of those in `t`."""
        count = next(len(value_of(one)) for one in t if one is not None)
        return PUBLIC["broadcast_to"](operand, (count, *shape_of(operand)))

    @staticmethod
    def linked(base: np.ndarray, pairs):
        return linked(base, pairs)


def linked(base: np.ndarray, pairs):
    """Arrays like `base`, assembled from parts: (values, the view of `base` that they add to).

    Where nothing is added it has the values of `base`.
    """
    pairs = [_once(*pair) for pair in pairs]
    (first, view), count = pairs[0], len(value_of(pairs[0][0]))
    if (
        len(pairs) == 1
        and view.size == base.size
        and rt.same_place(view.reshape(-1), base.reshape(-1))
    ):
        return PUBLIC["reshape"](first, (count, *base.shape))
    times = np.zeros(base.shape, base.dtype)
    for _, view in pairs:
        add_to_windows(placed(times, base, view), base.dtype.type(1))
    out = copies.empty((count, *base.shape), base.dtype)
    rest = np.flatnonzero(times == 0.0)
    if times.size and times.max() > 1.0:
        out[...] = np.where(times == 0.0, base, 0.0)
    else:
        out.reshape(count, base.size)[:, rest] = base.reshape(-1)[rest]
    targets = [(values, placed(out, base, view, count)) for values, view in pairs]
    for values, target in targets:
        if times.size and times.max() > 1.0:
            add_to_windows(target, array_of(values))
        else:
            target[...] = array_of(values)
    return link(out, targets) if any(is_recorded(values) for values, _ in targets) else out


def _once(values, view: np.ndarray):
    """Values summed over the axes along which a view repeats an element."""
    axes = tuple(k - view.ndim for k, s in enumerate(view.strides) if s == 0 and view.shape[k] > 1)
    if not axes:
        return values, view
    key = [slice(0, 1) if k - view.ndim in axes else slice(None) for k in range(view.ndim)]
    return PUBLIC["sum"](values, axis=axes, keepdims=True), view[tuple(key)]


_NAMES = _Batching(product)


def in_order_of(value, base: np.ndarray):
    """The counterpart of `base` for all elements, with the same memory order; and the axes."""
    axes = memory_axes(base)
    if axes is not None:
        value = PUBLIC["transpose"](value, (0, *[1 + axis for axis in axes]))
    return in_c_order(value)


# --- by layout ------------------------------------------------------------------------------------


def _reduction(op: Structural, t: list, site: Site):
    """Axes count from the end: an axis in front is one more that is kept."""
    (x,) = t
    value = op.value(value_of(x), **site.static)
    if not is_recorded(x):
        return value
    return reduced(ARRAY + op.code, value, x, _axes(site, value.ndim), True)


def _same_shape(op: Structural, t: list, site: Site):
    (x,) = t
    value = np.ascontiguousarray(op.value(value_of(x), **site.static))
    if not is_recorded(x):
        return value
    return same_shape(op, value, x, _axes(site, value.ndim))


def _axes(site: Site, ndim: int) -> tuple[int, ...]:
    return tuple(axis % ndim for axis in site.static["axes"])


def _plain(op: Structural, t: list, site: Site):
    """Operands broadcast against each other: those of fewer axes get some behind the first."""
    ndim = max(np.ndim(what) for _, what in site.operands)
    pairs = zip(t, site.operands, strict=True)
    operands = [what if one is None else aligned(one, ndim) for one, (_, what) in pairs]
    return recorded(op, operands, site.static)


_BY_LAYOUT: dict[Any, Callable] = {
    "reduction": _reduction,
    "same shape": _same_shape,
    "plain": _plain,
}


def _one_by_one(op: Structural, t: list, site: Site):
    """For each element separately, where the declaration says so."""
    count = next(len(value_of(one)) for one in t if one is not None)
    pairs = [*zip(t, site.operands, strict=True)]
    each = [[what if one is None else one[k] for one, (_, what) in pairs] for k in range(count)]
    return PUBLIC["stack"]([recorded(op, operands, site.static) for operands in each])


def _steering(op: Pointwise, operands: list):
    """An operation of traces, by its expression; without derivative where its partials are 0."""
    if not op.sloping:
        operands = [steered(np.positive, one) for one in operands]
    (made,) = evaluate(op, dict(zip(op.inputs, operands, strict=True)))
    return made


# --- rows -----------------------------------------------------------------------------------------


class BatchedRows:
    """The rows of an element, oldest to newest, with their counterparts for all elements.

    `inputs` are arrays or recorded tensors with the elements along the first axis, in memory as
    those of the element. Rows that do not depend on them are the same for all.
    """

    def __init__(self, element: Element, inputs: list, count: int):
        self.element, self.rows, self.count = element, element.rows, count
        pairs = zip(element.inputs, inputs, strict=True)
        self.made: dict[int, Any] = {one._id: value for one, value in pairs}
        self._cells: dict[int, dict[int, np.ndarray]] = {}  # of consecutive rows, by address

    # --- operands -------------------------------------------------------------------------------

    def seen(self, source: int, what):
        """An operand for all elements; None if it is the same for all."""
        made = self.made.get(source)
        if made is None or what is None:
            return made
        memory, base = value_of(made), self.rows[source].base
        if what is base and base.flags.c_contiguous:
            return made
        view = placed(memory, base, what, self.count)
        return rt.view_of(made, view) if is_tensor(made) else view

    def alone(self, source: int, what):
        """An operand that is the same for all elements, as a tensor if it is recorded elsewhere."""
        is_outer = source in self.element.outer and rt.is_recording()
        if what is None:
            value = self.rows.fields(source)[4]
            return tensor_at(source, None, value) if is_outer else value
        return tensor_at(source, what) if is_outer else self.element.as_read(source, what)

    def of_tensor(self, tensor):
        """The batched counterpart of a recorded tensor; None if it is the same for all elements."""
        view = tensor._array if type(tensor) is rt.Array else None
        return self.seen(tensor._id, view)

    # --- the traversal --------------------------------------------------------------------------

    def run(self, wanted: list) -> list:
        """The batched counterparts of recorded tensors (see `of_tensor`); others are left out."""
        numbers = self._behind([tensor._id for tensor in wanted])
        uses = Counter(k for number in numbers for k in self.rows[number].reads)
        uses.update(tensor._id for tensor in wanted)
        with silence():
            for number in numbers:
                row = self.rows[number]
                if any(k in self.made for k in row.reads):
                    self.made[number] = self._laid(row, self._value(number, row))
                for k in row.reads:
                    uses[k] -= 1
                    if not uses[k]:
                        self.made.pop(k, None)
                        self._cells.pop(k, None)
        return [self.of_tensor(tensor) for tensor in wanted]

    def _behind(self, wanted: list[int]) -> list[int]:
        """The rows that some rows need, oldest first, but for inputs."""
        found, waiting = set(), list(wanted)
        inside = set(self.element.order)
        while waiting:
            number = waiting.pop()
            if number in found or number in self.made or number not in inside:
                continue
            found.add(number)
            waiting += self.rows[number].reads
        return [number for number in self.element.order if number in found]

    def _laid(self, row: RecordedRow, value):
        """The value of a row in memory as that of the element."""
        value = value if is_recorded(value) else value_of(value)
        shape, dtype = ((), _FLOAT64) if row.base is None else (row.base.shape, row.base.dtype)
        shape = (self.count, *shape)
        array = array_of(value)
        if array.dtype != dtype or array.size != math.prod(shape):
            raise Unbatched(f"{row.name} gives another shape or dtype for a batch")
        if row.base is None:
            return value if array.ndim == 1 else PUBLIC["reshape"](value, shape)
        value = value if array.shape == shape else PUBLIC["reshape"](value, shape)
        return in_order_of(value, row.base)

    def _value(self, number: int, row: RecordedRow):
        """The value of a row for all elements."""
        if row.word == layout.LOAD:
            return self._cell(*row.operands[0])
        if isinstance(row.op, Pointwise):
            return self._pointwise(row, row.op)
        if row.op is COMPUTED:
            return self._call(row)
        return self._structural(number, row, row.op)

    def _cell(self, source: int, what: np.ndarray):
        """One number of each element; copied, since the originals are far apart in memory."""
        if is_tensor(self.made[source]):
            return self.seen(source, what)
        found, address = self._cells.setdefault(source, {}), what.ctypes.data
        if address not in found:
            found[address] = np.ascontiguousarray(self.seen(source, what))
        return found[address]

    def _pointwise(self, row: RecordedRow, op: Pointwise):
        ndim = 0 if row.base is None else row.base.ndim
        operands = []
        for source, what in row.operands:
            given = self.seen(source, what)
            operands.append(self.alone(source, what) if given is None else spread(given, ndim))
        return apply(op.name, *operands) if op.name not in STEERING else _steering(op, operands)

    def _call(self, row: RecordedRow):
        (_, call), *operands = row.operands
        t = [self.seen(*operand) for operand in operands]
        pairs = zip(t, operands, strict=True)
        alone = [self.alone(*operand) if one is None else None for one, operand in pairs]
        return call_of_each(call, t, alone, np.ndim(row.base))

    def _structural(self, number: int, row: RecordedRow, op: Structural):
        rule: Any = None if op is None else _BY_LAYOUT.get(op.layout)
        if op is None or op.vjp is None or (op.batched is None and rule is None):
            raise Unbatched(f"it calls {row.name}, which has no batching rule")
        site = site_of(op, [*row.operands, (number, row.base)])
        t = [self.seen(*operand) for operand in site.operands]
        pairs = zip(t, site.operands, strict=True)
        operands = [
            (source, self.alone(source, what) if one is None else _element(what))
            for one, (source, what) in pairs
        ]
        site = site._replace(operands=operands)
        if op.batch == "loop":
            made = _one_by_one(op, t, site)
        elif op.batched is not None:
            values = [operand for _, operand in operands]
            made = op.batched(_NAMES, t, _element(site.out), *values, **site.static)
        else:
            made = rule(op, t, site)
        if site.out is None or site.out.flags.c_contiguous or op.layout == "links":
            return made
        return linked(row.base, [(PUBLIC["reshape"](made, (self.count, *site.shape)), site.out)])


def _element(what):
    """An operand of one element, read for its shape and dtype."""
    return np.float64(0.0) if what is None else what
