"""Derivatives that are themselves recorded, and the compiled sweep with what it asks of rules."""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.operations import PUBLIC
from .._core.ops.table import Pointwise, Site, Structural
from .._core.tape import store, sweeps
from .._core.tape.sweeps import ChangedError, FreedError, Sweep, Writing
from .._core.tape.tape import USED_UP, Reader, bounds, name_of_row, needed
from .._core.tape.workspace import dependence_of, refuse_writes_since
from .._core.tensor import runtime as rt
from .._core.tensor.copies import link, pack, unlisted
from .._core.tensor.indexing import of_elements, scatter_add
from .._core.tensor.runtime import silence, silent
from .._core.tensor.trace import named, steered
from .._core.tensor.values import dtype_of, is_recorded, is_tensor, shape_of, value_of
from .tape_traversal import (
    REVERSE,
    Before,
    Rewound,
    Traversal,
    beside,
    cast,
    evaluate,
    in_zeros,
    of_input,
    placed,
    product,
    seen_as,
    settled,
    tensor_at,
)

# --- reverse mode ---------------------------------------------------------------------------------
# The compiled sweep: errors of its refusals, rows with hooks.


# --- The compiled sweep, with error messages for its refusals -------------------------------------


AGAIN = (
    "tapegrad.backward: the tensor's rows were used up by an earlier backward pass; call the "
    "first one with retain_graph=True to pass through them again"
)

_CHANGED = (
    "tapegrad.backward: an input was written in place, inside no_grad(), after the rows that read "
    "it were recorded; call backward() before the write, or compute the output again; "
    "tg.autograd.detect_anomaly() around all of it finds the line"
)


def seed_of(name: str, tensor, gradient):
    """The adjoint that a sweep starts with: of the tensor's shape and dtype, a tensor if given so.

    `name` is that of the caller, for messages.
    """
    value = np.asarray(value_of(tensor))
    if gradient is None:
        if value.size != 1:
            raise RuntimeError(
                f"tapegrad.{name}: the output has shape {value.shape}, but a gradient needs a "
                "scalar: reduce it, for instance with sum(), or pass gradient= of that shape"
            )
        return np.ones(value.shape, value.dtype)
    gradient = unlisted(gradient)
    shape = np.shape(value_of(gradient))
    if shape != value.shape:
        raise ValueError(
            f"tapegrad.{name}: gradient= has shape {shape}, the output has {value.shape}; "
            "they must be equal"
        )
    return gradient


def plant(sweep: Sweep, tensor, seeds: np.ndarray) -> None:
    """Add `seeds`, of shape (number of seeds, …), to the adjoint of a recorded tensor."""
    try:
        sweep.plant(tensor, seeds)
    except FreedError:
        raise RuntimeError(AGAIN) from None


def run(sweep: Sweep, stops=None) -> None:
    """Run a sweep, with error messages for its refusals."""
    try:
        sweep.run(stops)
    except FreedError:
        raise RuntimeError(AGAIN) from None
    except ChangedError:
        raise RuntimeError(_CHANGED) from None


# --------------------------------------------------------------------------------------------------
# Derivatives to inputs through rows that may have hooks, which `autograd` registers and calls.


#: The functions of `autograd` for rows with hooks, by what they do.
HOOKED: dict[str, Callable] = {}


def run_to(sweep: Sweep, tensors: list) -> None:
    """Run a sweep whose adjoints are those of inputs."""
    if _any_is_watched():
        HOOKED["swept"](sweep, tensors)
    else:
        run(sweep)


def meets_hooks(outputs: list, tensors: list, gradients: bool = True) -> bool:
    """Whether outputs depend on inputs by a row with a hook, or a retained gradient."""
    return _any_is_watched() and HOOKED["reaches"](outputs, tensors, gradients)


def _any_is_watched() -> bool:
    return any(store.watched.values())


# --- recorded reverse -----------------------------------------------------------------------------
# Derivatives that are themselves recorded: the adjoint of each row written as rows.


# --- Adjoints of rows written as rows, by the rules of their declarations -------------------------


def site_of(op: Structural, found: list) -> Site:
    """The operands of a row as the rules of its operation see them, given operands and output."""
    return op.references.site(found)


def values_at(reads: int, site: Site, read, output) -> tuple:
    """The output and the operands of a row as a rule gets them, by functions that find them.

    An operand that the rule does not read, by the bits of `reads`, is an array of the same shape
    and dtype.
    """
    out = output(site) if reads & 1 else site.out
    operands = [
        read(*operand) if reads >> k + 1 & 1 else operand[1]
        for k, operand in enumerate(site.operands)
    ]
    return out, operands


def output_at(traversal, number: int, site: Site):
    """The output of a row as its rules see it, with the value that the traversal finds."""
    out = traversal.value(number, number, site.out)
    return PUBLIC["reshape"](out, site.shape) if site.out is None else out


def summed_to(adjoint, shape, lead: int = 0):
    """An adjoint summed over the axes along which an operand of `shape` was repeated.

    Its first `lead` axes stay.
    """
    own = shape_of(adjoint)
    if own[lead:] == shape:
        return adjoint
    extra = len(own) - lead - len(shape)
    repeated = [k for k, n in enumerate(shape) if n == 1 and own[lead + extra + k] != 1]
    axes = (*range(lead, lead + extra), *[lead + extra + k for k in repeated])
    if axes:
        adjoint = PUBLIC["sum"](adjoint, axis=axes, keepdims=True)
    return PUBLIC["reshape"](adjoint, (*own[:lead], *shape)) if extra else adjoint


def parts_of(op: Structural, g, site: Site, out, operands) -> list:
    """The result of the rule of a row for each operand, None where it has no derivative."""
    trace = rt.trace()
    if trace is None:
        return _parts(op, g, site, out, operands)
    return trace.by_rule(_parts, op, g, site, out, operands)


def _parts(op: Structural, g, site: Site, out, operands) -> list:
    parts = op.vjp(REVERSE, g, out, *operands, **site.static)
    pairs = zip(site.operands, parts, strict=True)
    wanted = [part if source >= 0 else None for (source, _), part in pairs]
    return [part() if callable(part) else part for part in wanted]


def write_adjoint(traversal, number: int, adjoint, op: Structural) -> None:
    """Write the adjoints of a row's operands as rows, given its own."""
    site = site_of(op, traversal.read(number))
    adjoint = pack(adjoint) if type(adjoint) is rt.Scalar else adjoint
    if site.out is None or site.out.flags.c_contiguous:
        same = shape_of(adjoint) == site.shape
        g = adjoint if same else PUBLIC["reshape"](adjoint, site.shape)
    else:
        g = seen_as(adjoint, traversal.base(number), site.out)
    out, operands = values_at(
        op.used, site, traversal.tensor, lambda site: output_at(traversal, number, site)
    )
    for (source, view), part in zip(
        site.operands, parts_of(op, g, site, out, operands), strict=True
    ):
        if part is not None:
            traversal.add(source, view, summed_to(part, np.shape(view)))


def _product_text(partial: str) -> str:
    return "adjoint" if partial == "1.0" else f"product(adjoint, {partial})"


def write_pointwise(traversal, number: int, adjoint, declaration: Pointwise) -> None:
    """Write adjoint times partial derivative, for each operand of an element-wise row."""
    *operands, (_, out) = traversal.operands(number)
    values = [beside(dtype_of(out), tensor) for _, tensor in operands]
    names = dict(zip(declaration.inputs, values, strict=True))
    names |= {"out": out, "adjoint": adjoint, "product": product}
    wanted = tuple([j for j in declaration.sloping if operands[j][0] >= 0])
    for j, part in zip(wanted, evaluate(declaration, names, wanted, _product_text), strict=True):
        source, tensor = operands[j]
        if type(part) is float:  # of a selection by a number
            part = np.full(shape_of(adjoint), part, dtype_of(adjoint))
        view = tensor._array if type(tensor) is rt.Array else None
        shape = np.shape(value_of(tensor))
        part = summed_to(part, shape)
        traversal.add(source, view, part)


# --- A computation recorded again without in-place writes, for derivatives of derivatives ---------
# A recorded derivative reads values that a write may have replaced since, and its contribution to
# the adjoint of a buffer comes after the write. So each write becomes a new array: the elements
# that remain, and the written ones. Rows that make or read such arrays are appended again; all
# others stay as they are.


def without_writes(outputs, stops) -> list:
    """Recorded tensors of the same values as `outputs`, computed from `stops` without writes."""
    return _again(outputs, Unwritten(stops, refuses=True))


def without_writes_to(inputs, outputs) -> tuple[list, list]:
    """The inputs and outputs computed without writes; a written input is replaced by a new one.

    The new input has the value from before the writes. Derivatives with respect to the old one
    would be zero from now on, so that they must not be requested.
    """
    traversal = Unwritten([tensor._id for tensor in inputs], refuses=False)
    outputs = _again(outputs, traversal)
    return [traversal.input(tensor) for tensor in inputs], outputs


def _again(outputs, traversal: Unwritten) -> list:
    numbers = needed(traversal.reader, [output._id for output in outputs], traversal.stops)
    if not any(traversal.reader.writes(number) for number in numbers):
        return list(outputs)
    for number in numbers:
        traversal.take(number)
    return [traversal.operand(output._id, getattr(output, "_array", None)) for output in outputs]


class Unwritten(Rewound):
    """Rows, oldest to newest, with their replacements."""

    def __init__(self, stops, refuses: bool):
        super().__init__(stops)
        self.refuses = refuses  # inputs that were written
        self.made: dict = {}  # row → its scalar, or its array at the time of the traversal
        self.inputs: dict = {}  # inputs that were written, as they were before

    def operand(self, source: int, what):
        """The replacement of an operand that `read` has found."""
        if source not in self.made:
            return self.tensor(source, what)
        return self._seen(self.made[source], source, what)

    def input(self, tensor):
        """The replacement of an input."""
        if tensor._id not in self.inputs:
            return tensor
        return self._seen(self.inputs[tensor._id], tensor._id, tensor._array)

    def _seen(self, made, source: int, what):
        if what is None:
            return made
        view = placed(made._array, self.base(source), what)
        return rt.view_of(made, view) if is_recorded(made) else view

    def take(self, number: int) -> None:
        """Find or make the replacement of a row."""
        self.now = number
        buffer = self.reader.buffer_written(number)
        if buffer >= 0:
            self.made[buffer] = self._replaced(number, buffer)
            return
        if self.reader.writes(number):
            self._check(number)
        if number in self.stops:
            if self.reader.writes(number):
                self.made[number] = self.inputs[number] = self._input_again(number)
            return
        if self.reader.writes(number) or any(k in self.made for k in self.reader.operands(number)):
            self.made[number] = self._again(number)

    def _check(self, number: int) -> None:
        """Refuse a written buffer that cannot be made once more."""
        is_input = number in self.stops or name_of_row(self.reader, number) == "input"
        if is_input and (self.refuses or number not in self.stops):
            raise NotImplementedError(
                "tapegrad: a derivative of a derivative through an in-place write to an input of "
                "the function is not supported; write to a copy() of it"
            )
        if not self.base(number).flags.c_contiguous:
            raise NotImplementedError(
                "tapegrad: a derivative of a derivative through an in-place write to an array that "
                "is not in C order is not supported; write to a copy() of it"
            )

    def _input_again(self, number: int):
        """An input once more, as it was before all writes."""
        if name_of_row(self.reader, number) == "input":
            return rt.row(layout.LEAF, np.array(self.then(number, self.base(number))))
        return self._again(number)

    def _again(self, number: int):
        """The row again, on the replacements of its operands."""
        row = self.reader.row(number)
        op, base = int(row["op"]), self.base(number)
        read = self.read(number)[:-1] if op != layout.CONSTANT else []
        operands = [_parameter(self.operand(*pair)) for pair in read]
        out: Any = float(self.number(number)) if base is None else np.array(self.then(number, base))
        if base is not None:  # the places in the output that operands go to, or are seen in
            operands = [
                placed(out, base, one) if type(one) is np.ndarray and _lies_in(base, one) else one
                for one in operands
            ]
        if not any(is_tensor(operand) for operand in operands):
            return out if base is None else rt.wrap(out)
        if op == layout.LOAD:
            return rt.load(*operands)
        return rt.row(op if op > layout.ARRAY else op & ~3, out, *operands)

    def _replaced(self, number: int, buffer: int):
        """The array after a write: the remaining elements, and the written ones."""
        (_, view), _, (source, what), *picked = self.read(number)
        if picked and is_tensor(self.operand(*picked[0])):
            return self._replaced_at(number, buffer, self.operand(*picked[0]))
        before, base = self.made[buffer], self.base(buffer)
        made = np.zeros_like(before._array)
        part, key = placed(made, base, view), self.key(number, view)
        part[key] = self.wrote(number)
        value = self.operand(source, what)
        if is_tensor(value):
            made = link(made, [(self._written(number, value, part), part)])
        elif not is_recorded(before):
            written = before._array.copy()
            placed(written, base, view)[key] = self.wrote(number)
            return rt.wrap(written)
        kept = np.ones(base.shape, base.dtype)
        placed(kept, base, view)[key] = 0.0
        return _array(PUBLIC["where"](kept != 0.0, before, made))

    def _replaced_at(self, number: int, buffer: int, positions):
        """The same where a traced program computes the positions: any element may be kept."""
        (_, view), (_, kept), (source, what), *_ = self.read(number)
        before, base = self.made[buffer], self.base(buffer)
        positions = of_elements(positions, kept.shape)
        places = np.arange(base.size, dtype=f"i{base.itemsize}").view(base.dtype)
        places = placed(places, base, view).copy().view(f"i{base.itemsize}")
        at = steered(_places, positions, places=places)
        last = steered(_is_last, at)
        value = self.operand(source, what)
        value = _array(value) if is_tensor(value) else self.wrote(number)
        value = PUBLIC["ravel"](PUBLIC["broadcast_to"](value, np.shape(value_of(positions))))
        written = scatter_add(PUBLIC["where"](last, value, 0.0), at, base.size)
        count = scatter_add(steered(np.multiply, last, 1.0), at, base.size)
        kept = steered(operator.eq, PUBLIC["reshape"](count, base.shape), 0.0)
        return _array(PUBLIC["where"](kept, before, PUBLIC["reshape"](written, base.shape)))

    def _written(self, number: int, value, part):
        """The value of a write, as a tensor of the shape of its view, 0 elsewhere."""
        _, (_, kept), _, *picked = self.read(number)
        value = PUBLIC["broadcast_to"](_array(value), kept.shape if picked else part.shape)
        if value.dtype != part.dtype:
            value = value.astype(part.dtype)
        if not picked:
            return _array(value)
        places = np.ravel(of_elements(np.asarray(picked[0][1]), kept.shape))
        last = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
        values = PUBLIC["reshape"](value, (-1,))[last]
        return _array(PUBLIC["reshape"](scatter_add(values, places[last], part.size), part.shape))


@named("unwritten.places")
def _places(positions, places):
    """The positions in a buffer of elements of a view of it; the view holds the positions."""
    return places.ravel()[np.ravel(positions).astype(np.int64)].astype(np.int64)


@named("unwritten.is_last")
def _is_last(places):
    """The last occurrence of each of the places, as a mask."""
    last = np.zeros(np.shape(places), bool)
    last[len(last) - 1 - np.unique(places[::-1], return_index=True)[1]] = True
    return last


def _lies_in(base: np.ndarray, array: np.ndarray) -> bool:
    """Whether an array shows a part of a buffer."""
    if not array.size or array.dtype != base.dtype:
        return False
    low, high = bounds(base)
    first, end = bounds(array)
    return low <= first and end <= high


def _array(value):
    """A tensor as one that has an array."""
    return pack(value) if type(value) is rt.Scalar else value


def _parameter(value):
    """An operand as a row takes it."""
    return float(value) if isinstance(value, (float, np.floating)) else value


# --- Derivatives that are themselves recorded, by writing the adjoint of each row as rows ---------
# The rules are those that the compiled sweep uses: for rows of scalars compiled themselves, for
# arrays called with tensors, which costs Python per row.


#: Adjoints of operations whose rules are a user's, by their names; each has its own conventions.
BY_HAND: dict[str, Callable] = {}


class Differentiation(Traversal):
    """The adjoints of rows, as tensors, during a backward traversal of the rows.

    Rows of scalars are taken in compiled code (`AdjointRecorder`), those of arrays by the rules
    here.
    """

    def __init__(self, stops, writing: Writing):
        super().__init__(stops)
        self.writing = writing
        self.adjoints: dict = {}  # of arrays

    def add(self, number: int, view, adjoint) -> None:
        """Add to the adjoint of a row, or of the part of its buffer that `view` is."""
        if not self.writing.marks[number]:
            return  # no input is behind it
        base = self.base(number)
        if base is None:
            self._add_to_scalar(number, adjoint)
            return
        if view is not None and not rt.same_place(view, base):
            adjoint = in_zeros(base, view, adjoint)
        adjoint = cast(adjoint, base.dtype)
        before = self.adjoints.get(number)
        self.adjoints[number] = adjoint if before is None else before + adjoint
        self.writing.set(number, -1)

    def _add_to_scalar(self, number: int, adjoint) -> None:
        before = self.adjoint(number)
        adjoint = adjoint if before is None else before + adjoint
        if type(adjoint) is rt.Array and is_recorded(adjoint):
            adjoint = rt.load(adjoint.astype(np.float64))
        recorded = type(adjoint) is rt.Scalar
        row = adjoint._id if recorded else -1
        self.writing.set(number, row, float(value_of(adjoint)))

    def adjoint(self, number: int):
        """The adjoint of a row so far as a tensor or a number, None if nothing has reached it."""
        base = self.base(number)
        if base is None:
            found = self.writing.adjoint(number)
            return None if found is None else _scalar(*found)
        reads = self.writing.reads(number)
        if reads is not None:
            self.add(number, None, _scattered(base, reads))
        return self.adjoints.get(number)

    def run(self, outputs, seeds) -> None:
        """Traverse the tape back from `outputs`, whose adjoints are `seeds`."""
        for output, seed in zip(outputs, seeds, strict=True):
            self.add(output._id, output._array if type(output) is rt.Array else None, seed)
        try:
            with silence():
                self.writing.run(self.rule)
        except FreedError:
            raise RuntimeError(USED_UP) from None

    def rule(self, number: int) -> None:
        """Write the adjoint of a row of arrays."""
        pass_back(self, number, self.adjoint(number))


def pass_back(traversal: Traversal, number: int, adjoint) -> None:
    """Write the adjoints of a row's operands."""
    name, op = traversal.operation(number)
    if isinstance(op, Pointwise):
        write_pointwise(traversal, number, adjoint, op)
    elif name in BY_HAND:
        BY_HAND[name](traversal, number, adjoint)
    elif op.vjp is not None:
        write_adjoint(traversal, number, adjoint, op)
    else:
        raise NotImplementedError(
            f"tapegrad: a derivative of a derivative through {name} is not supported yet; "
            "write the function without it, or take first derivatives only"
        )


def _scalar(row: int, value: float):
    return tensor_at(row, None, value) if row >= 0 else np.float64(value)


def _scattered(base: np.ndarray, loads: np.ndarray):
    """The contributions of reads of single cells to the adjoint of their buffer."""
    places = np.zeros(1, np.int64)
    for n, stride in zip(base.shape, base.strides, strict=True):
        places = np.add.outer(places, np.arange(n) * stride).ravel()
    order = np.argsort(places)
    picked = order[np.searchsorted(places[order], loads["place"] * 4)]
    pairs = zip(loads["row"].tolist(), loads["value"].tolist(), strict=True)
    adjoints = pack(*[_scalar(*pair) for pair in pairs], shape=(len(loads),))
    return PUBLIC["reshape"](scatter_add(adjoints, picked, base.size), base.shape)


def recorded_adjoints(outputs, seeds, inputs, only: bool = False) -> list:
    """Adjoints of `inputs` as recorded tensors, zeros where the outputs do not depend on them.

    If this is the `only` differentiation with respect to them, they may have been written (see
    `without_writes_to`).
    """
    if meets_hooks(outputs, inputs):
        return _filled(inputs, HOOKED["recorded"](outputs, seeds, inputs))
    return _filled(inputs, adjoints_if_reached(outputs, seeds, inputs, only))


def adjoints_and_inputs(outputs, seeds, inputs) -> tuple[list, list]:
    """The same, and the replacements of the inputs in adjoints that are differentiated again.

    That is another tensor for one that was written (see `without_writes_to`).
    """
    if meets_hooks(outputs, inputs):
        return recorded_adjoints(outputs, seeds, inputs), inputs
    again: list = []

    def derive() -> list:
        found, again[:] = _reached_adjoints(outputs, seeds, inputs, True)
        return found

    with silent():
        return _filled(inputs, settled(derive)), again


def _filled(inputs, adjoints: list) -> list:
    """Adjoints, zeros where there are none."""
    return [
        PUBLIC["zeros_like"](tensor) if adjoint is None else adjoint
        for tensor, adjoint in zip(inputs, adjoints, strict=True)
    ]


def adjoints_if_reached(outputs, seeds, inputs, only: bool = False) -> list:
    """Adjoints of `inputs` as recorded tensors, None where the outputs do not depend on them.

    Rows before an input do not get the adjoint that passes through it.
    """
    with silent():
        return settled(lambda: _reached_adjoints(outputs, seeds, inputs, only)[0])


def _reached_adjoints(outputs, seeds, inputs, only: bool) -> tuple[list, list]:
    stops = [tensor._id for tensor in inputs]
    with _writing(outputs, stops) as writing:
        if not writing.meets_writes:
            return _adjoints(writing, outputs, seeds, inputs), inputs
    if only:
        inputs, outputs = without_writes_to(inputs, outputs)
    else:
        outputs = without_writes(outputs, stops)
    with _writing(outputs, [tensor._id for tensor in inputs]) as writing:
        return _adjoints(writing, outputs, seeds, inputs), inputs


def _writing(outputs, stops) -> Writing:
    trace, choices = rt.trace(), layout.BY_VALUE
    if trace is not None:  # a program has other values later than compiled code sees here
        choices = layout.CAREFUL if trace.careful else layout.TRACED
    return Writing(stops, dependence_of([output._id for output in outputs])[1], choices)


def _adjoints(writing, outputs, seeds, inputs) -> list:
    stops = [tensor._id for tensor in inputs]
    traversal = Differentiation(stops, writing)
    traversal.run(outputs, seeds)
    refuse_writes_since(writing.begun, [output._id for output in outputs])
    return [of_input(traversal.adjoint(t._id), traversal.base(t._id), t) for t in inputs]


def depends_on_others(outputs, inputs) -> bool:
    """Whether the outputs depend on an input that is not among `inputs`.

    Others are the inputs of transforms around this one and tensors made with `requires_grad=True`;
    inputs of a transform that is over are constants by now.
    """
    chunks = list(store.input_slots)  # they cannot depend on inputs that another thread makes now
    found, _ = dependence_of([output._id for output in outputs])
    others = {*rt.noted_inputs()} - {tensor._id for tensor in inputs}
    return any(map(found.has, chunks)) or bool(found.rows[[*others]].any())


def reached(output, inputs) -> list[bool]:
    """For each input, whether an output depends on it through recorded operations."""
    if not is_recorded(output):
        return [False for _ in inputs]
    stops = {tensor._id for tensor in inputs}
    found = set(needed(Reader(), [output._id], stops))
    return [tensor._id in found for tensor in inputs]


# --- sweep rules ----------------------------------------------------------------------------------
# Adjoints of rows without a kernel, in a sweep that stops there for their rules.
#
# References are read straight from the chunk: a row costs about as much as the NumPy in its rule.

_PLACE = struct.Struct("<ii")  # of a row: its first reference, and the number of references
_REFERENCE = struct.Struct("<qii")
_OBJECTS = (layout.TAG_ARRAY, layout.TAG_OBJECT)
_number = ctypes.c_double.from_address
_FIRST, _ALL = slice(0, 1), slice(None)


def traversal_of(sweep, number: int) -> Any:
    """A traversal that finds what the row has read, even if it was written since."""
    if not sweep.writes:
        return Traversal(())
    if sweep.before is None:
        sweep.before = Before(())
    return sweep.before.at(number)


def _row_at(sweep, number: int) -> int:
    """The address of a row."""
    start = int(sweep.work.table[number >> layout.ROWS_BITS]) + layout.HEADER_BYTES
    return start + (number & (layout.ROWS - 1)) * layout.ROW_BYTES


def references_of(sweep, number: int):
    """Operands of a row, then its output, as `Traversal.read` returns them."""
    return sweep.references(number) or _references_of_all(sweep, number)


def _references_of_all(sweep, number: int) -> list:
    """The same of a row that refers to numbers, or is used up."""
    row = _row_at(sweep, number)
    start = row - (number & (layout.ROWS - 1)) * layout.ROW_BYTES
    first, count = _PLACE.unpack(ctypes.string_at(row + 4, 8))
    at = start + layout.ROWS * layout.ROW_BYTES + first * layout.REFERENCE_BYTES
    memory = ctypes.string_at(at, count * layout.REFERENCE_BYTES)
    objects = (ctypes.py_object * (2 * count)).from_address(at)  # every other word is none
    return [
        (source, objects[2 * k]) if tag in _OBJECTS else Traversal.referred(what, source, tag)
        for k, (what, source, tag) in enumerate(_REFERENCE.iter_unpack(memory))
    ]


def _value(sweep, source: int, what):
    """The value of an operand that nothing has written to since."""
    return np.float64(_number(_row_at(sweep, source) + 16).value) if what is None else what


def _read(sweep, number: int, op: Structural) -> tuple:
    """The arguments of the rule of a row: its site, the output, the operands."""
    if not sweep.writes:
        site = site_of(op, references_of(sweep, number))
        operands = [_value(sweep, *operand) for operand in site.operands]
        if site.out is None:
            return site, np.reshape(_value(sweep, number, None), site.shape), operands
        return site, site.out, operands
    traversal = traversal_of(sweep, number)
    site = site_of(op, traversal.read(number))
    output = lambda site: np.reshape(traversal.then(number, site.out), site.shape)
    return site, *values_at(op.used, site, traversal.then, output)


def pass_back_by_rule(sweep, number: int, op: Structural) -> None:
    """Add to the adjoints of a row's operands what its rule gives for its own."""
    site, out, operands = _read(sweep, number, op)
    if site.out is None:
        own = sweep.cells(number).reshape(sweep.seeds, *site.shape)
    else:
        own = sweep.adjoint_buffer(number, site.out)
    with silence():
        if sweep.seeds == 1:
            _add(sweep, site, parts_of(op, own[0], site, out, operands), _FIRST)
        elif op.batch == "axis":
            _add(sweep, site, parts_of(op, own, site, out, operands), _ALL)
        else:
            for k, g in enumerate(own):
                _add(sweep, site, parts_of(op, g, site, out, operands), slice(k, k + 1))


def _add(sweep, site: Site, parts: list, seeds: slice) -> None:
    """Add adjoints of operands for some of the seeds; the parts have their axis if it is longer."""
    for (source, view), part in zip(site.operands, parts, strict=True):
        if part is None or sweep.add_plain(source, view, part):
            continue
        part = value_of(part) if seeds is _ALL else value_of(part)[None]
        if view is None or part.shape[1:] != view.shape:
            part = summed_to(part, np.shape(view), 1)
        sweep.add(source, view, part, seeds)


sweeps.by_rule.append(pass_back_by_rule)
