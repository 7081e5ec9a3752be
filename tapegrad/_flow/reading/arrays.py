"""Arrays in graphs, as loops: element-wise operations, products, reductions, items by arrays."""

from __future__ import annotations

import dataclasses
import math
import operator
import sys
from collections.abc import Callable

import numpy as np

from ..._core.tensor.registry import PUBLIC
from ..ir.flow_graph import Block, Edge, Value
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import views
from .forms import (
    FLOATS,
    NARROW,
    NONE,
    SINGLE,
    Array,
    Form,
    Known,
    Number,
    Raises,
    Ref,
    Refused,
    Tuple,
    described,
    value_kind,
)
from .numbers import (
    COMPARISONS,
    IN_PLACE,
    applied,
    arithmetic,
    compared,
    converted,
    is_float,
    is_mixed,
    is_number,
    is_tensor,
    negated,
    negative,
    number,
    of_numpy,
    rounded,
    settled,
    truth,
)
from .views import (
    broadcast,
    common,
    element,
    fill,
    is_slice,
    loaded,
    natural,
    new,
    of,
    position,
    product,
    same_length,
    stored,
    view,
)

# --- array arithmetic -----------------------------------------------------------------------------
# Element-wise operations, sums and products of arrays, as loops.

_OF_TRUTHS = frozenset((*COMPARISONS, operator.and_, operator.or_, operator.xor))


def mapped(reader, function: Callable[..., Form], *forms: Form) -> Array:
    """A new array with `function` of the elements of arrays and numbers."""
    lengths = common(reader, list(forms))
    operands = [broadcast(reader, form, lengths) for form in forms]
    kind = _result_kind(reader, function, operands)
    made = new(reader, lengths, kind)
    build = reader.builder

    def body(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        result = function(*[of(reader, one, places) for one in operands])
        stored(reader, element(reader, made, places), result)
        return []

    views.nested(build, [converted(build, one, INT) for one in lengths], body, [])
    return made


def _result_kind(reader, function: Callable[..., Form], operands: list) -> str:
    """The kind of the elements of a function's result; the steps that it makes are dropped."""

    block, reader.builder.block = reader.builder.block, Block(-1)
    try:
        samples = [_sample(reader, x) if isinstance(x, Array) else x for x in operands]
        result = function(*samples)
    finally:
        reader.builder.block = block
    kind = getattr(result, "kind", None)
    if kind is None or is_mixed(result):
        raise Refused(f"an array of {described(result)}")
    return kind


def _sample(reader, array: Array) -> Number:
    """A number like the elements of an array."""
    kind = value_kind(array.element)
    of = INT if array.element == NARROW else array.element
    made = of_numpy(reader.builder, of, reader.graph.value(kind))
    return dataclasses.replace(made, strong=made.strong or array.element == NARROW)


def operator_of(reader, op, a: Form, b: Form) -> Form:
    """A binary operator with an array."""
    if op is operator.matmul:
        return matmul(reader, a, b)
    if (
        isinstance(a, Array)
        and isinstance(b, Array)
        and BOOL in (a.element, b.element)
        and op not in _OF_TRUTHS
    ):
        raise Refused(f"{op.__name__} of an array of truths")
    for one in (a, b):
        if not (isinstance(one, Array) or is_number(one)):
            raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")
    build = reader.builder

    if op in COMPARISONS:
        return mapped(reader, lambda x, y: compared(build, op, x, y), a, b)
    return mapped(reader, lambda x, y: arithmetic(build, op, quiet(x), quiet(y)), a, b)


def quiet(form: Form) -> Form:
    """An operand of a NumPy operation: it raises no error."""
    if isinstance(form, Number) and form.kind == FLOAT:
        return dataclasses.replace(form, tensor=True)
    return form


def in_place(reader, op, a: Array, b: Form) -> Array:
    """`a op= b`."""
    if op not in IN_PLACE:
        raise Refused(f"{op.__name__} of an array")
    result = operator_of(reader, IN_PLACE[op], a, b)
    if not isinstance(result, Array) or len(result.lengths) != len(a.lengths):
        raise Raises("ValueError: could not broadcast")
    is_plain = b.plain if isinstance(b, Array) else not is_tensor(b)
    if a.plain and is_plain:  # then no element of the result is a tensor
        result = dataclasses.replace(result, plain=True)
    fill(reader, a.lengths, a, broadcast(reader, result, a.lengths))
    return a


def unary(reader, op, a: Array) -> Form:
    if op in (operator.neg, "-"):
        return mapped(reader, lambda x: negative(reader.builder, x), a)
    if op in (operator.pos, "+"):
        return mapped(reader, lambda x: x, a)
    if op in (operator.invert, "~") and a.element == BOOL:
        return mapped(reader, lambda x: negated(reader.builder, x), a)
    raise Refused(f"{op} of an array")


def assigned(reader, array: Array, index: Form, value: Form) -> None:
    """`array[index] = value`."""
    target = view(reader, array, index)
    if isinstance(value, Array):
        # a copy, since source and target may overlap
        value = dataclasses.replace(mapped(reader, lambda x: x, value), plain=value.plain)
        value = broadcast(reader, value, target.lengths)
    fill(reader, target.lengths, target, value)


def in_doubles(a: Array) -> Array:
    """An array of float32 as one of float64: sums are added up in float64 and rounded once."""
    return dataclasses.replace(a, element=FLOAT) if a.element == SINGLE else a


def _check_product(a: Form, b: Form) -> None:
    """Refuse other operands of a product than vectors and matrices of floats."""
    if not (isinstance(a, Array) and isinstance(b, Array)):
        raise Refused(f"a matrix product of {described(a)} and {described(b)}")
    if not a.lengths or len(b.lengths) not in (1, 2) or len(a.lengths) > 3 - (len(b.lengths) > 1):
        raise Refused("a product of stacks of matrices")
    kinds = {a.element, b.element}
    if kinds.isdisjoint(FLOATS) or (SINGLE in kinds and len(kinds) > 1):
        raise Refused("a matrix product of integers, or of them and float32")


def matmul(reader, a: Form, b: Form) -> Form:
    """The product of vectors and matrices."""
    _check_product(a, b)
    assert isinstance(a, Array) and isinstance(b, Array)
    is_single = a.element == SINGLE
    a, b = in_doubles(a), in_doubles(b)
    build = reader.builder
    first_lengths = a.lengths[:-1]
    last_lengths = b.lengths[1:]
    same_length(reader, a.lengths[-1], b.lengths[0])
    depth = converted(build, a.lengths[-1], INT)

    def dot(places: list) -> Form:
        first, second = places[: len(first_lengths)], places[len(first_lengths) :]

        def body(k: Value, carried: list[Value]) -> list[Value]:
            here = Number(INT, k, natural=True)
            x = of(reader, a, [*first, here])
            y = of(reader, b, [here, *second])
            made = arithmetic(build, operator.mul, x, y)
            total = arithmetic(build, operator.add, Number(FLOAT, carried[0]), made)
            return [converted(build, total, FLOAT)]

        found = views.counted(build, depth, body, [build.constant(0.0)])
        result = Number(FLOAT, found[0], True)
        return rounded(build, result) if is_single else result

    lengths = (*first_lengths, *last_lengths)
    if not lengths:
        return dot([])
    made = new(reader, lengths, SINGLE if is_single else FLOAT)

    def each(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        stored(reader, element(reader, made, places), dot(places))
        return []

    views.nested(build, [converted(build, one, INT) for one in lengths], each, [])
    return made


# --- array reductions -----------------------------------------------------------------------------
# Reductions of arrays as loops: sums, extremes, logarithms of sums of exponentials.


# --- Reductions of arrays, of all elements or along axes, as loops --------------------------------


# --- of all elements ------------------------------------------------------------------------------


def _counts(reader, a: Array) -> list[Value]:
    return [converted(reader.builder, one, INT) for one in a.lengths]


def _places(indices: list[Value]) -> list[Number]:
    return [Number(INT, k, natural=True) for k in indices]


def folded_elements(
    reader, a: Array, step: Callable[[Form, Form], Form], first: Form, kind: str
) -> Number:
    """`carried = step(carried, element)` for all elements, from `first` on."""
    build = reader.builder

    def body(indices: list[Value], carried: list[Value]) -> list[Value]:
        made = step(Number(kind, carried[0]), of(reader, a, _places(indices)))
        return [converted(build, made, kind)]

    (found,) = views.nested(build, _counts(reader, a), body, [converted(build, first, kind)])
    return of_numpy(build, kind, found)


def _accumulated(op: Callable, first: int):
    """A sum or product; NumPy counts truths as integers."""

    def reduction(reader, a: Array) -> Number:
        def step(total: Form, x: Form) -> Form:
            return arithmetic(reader.builder, op, quiet(total), quiet(x))

        return folded_elements(
            reader, a, step, Known(first), a.element if a.element in FLOATS else INT
        )

    return reduction


summed = _accumulated(operator.add, 0)


def _rounded_once(reduction: Callable) -> Callable:
    """A reduction that computes those of float32 in float64."""

    def wide(reader, a: Array) -> Form:
        found = reduction(reader, in_doubles(a))
        is_rounded = a.element == SINGLE and found.kind == FLOAT
        return rounded(reader.builder, found) if is_rounded else found

    return wide


def mean(reader, a: Array) -> Form:
    """The mean; NaN of no elements, as in NumPy."""
    total = summed(reader, a)
    size = converted(reader.builder, product(reader, a.lengths), FLOAT)
    return arithmetic(reader.builder, operator.truediv, quiet(total), Number(FLOAT, size, True))


def _truths(op: str):
    """Whether one element is true (`bool_or`), or all are (`bool_and`)."""

    def reduction(reader, a: Array) -> Number:
        build = reader.builder

        def step(found: Form, x: Form) -> Form:
            one = converted(build, truth(build, x), BOOL)
            return number(build.step(op, converted(build, found, BOOL), one))

        return folded_elements(reader, a, step, Known(op == "bool_and"), BOOL)

    return reduction


# --- extremes -------------------------------------------------------------------------------------


def _found(reader, a: Array, better: Callable) -> tuple[Array, Value, Value]:
    """The first extreme element, its index in C order, and how many elements are equal to it.

    It is found by its address: the reverse pass reads one element. A NaN leaves the graph.
    """
    build = reader.builder
    filled = compared(build, operator.gt, product(reader, a.lengths), Known(0))
    build.check(converted(build, filled, BOOL), "an extreme of no elements")
    zero, one = build.constant(0), build.constant(1)

    def body(indices: list[Value], carried: list[Value]) -> list[Value]:
        address, index, equal, count = carried
        here = element(reader, a, _places(indices))
        x, best = loaded(reader, here), loaded(reader, _at(a, address))
        if a.element == FLOAT:
            is_number_ = converted(build, compared(build, operator.eq, x, x), BOOL)
            build.check(is_number_, "an extreme of NaN")
        wins = converted(build, compared(build, better, x, best), BOOL)
        ties = converted(build, compared(build, operator.eq, x, best), BOOL)
        more = build.step("int_add", equal, build.step("bool_to_int", ties))
        return [
            build.step("int_select", wins, converted(build, here.address, INT), address),
            build.step("int_select", wins, count, index),
            build.step("int_select", wins, one, more),
            build.step("int_add", count, one),
        ]

    first = converted(build, a.address, INT)
    address, index, equal, _ = views.nested(
        build, _counts(reader, a), body, [first, zero, zero, zero]
    )
    return _at(a, address), index, equal


def _at(a: Array, address: Value) -> Array:
    return dataclasses.replace(a, address=number(address), lengths=(), strides=())


def _extreme(better: Callable):
    def reduction(reader, a: Array) -> Form:
        if a.element == BOOL:
            raise Refused("an extreme of truths")
        found, _, equal = _found(reader, a, better)
        best = loaded(reader, found)
        return best if a.element == INT else _shared(reader, a, best, equal)  # type: ignore[arg-type]

    return reduction


def _shared(reader, a: Array, best: Number, equal: Value) -> Number:
    """The extreme; elements that are equal to it share its derivative evenly.

    With m the mean of the first n − 1, m + (x - m) / n is that of n: the number itself for n = 1.
    """
    build = reader.builder
    several, after = build.begin(), build.begin(FLOAT)
    alone = build.step("int_equal", equal, build.constant(1))
    build.branch(alone, Edge(after, [best.value]), Edge(several, []))  # type: ignore[list-item]
    build.block = several
    build.check(build.step("is_finite", best.value), "an infinite extreme that occurs twice")

    def body(indices: list[Value], carried: list[Value]) -> list[Value]:
        x = converted(build, of(reader, a, _places(indices)), FLOAT)
        tied, on = build.begin(), build.begin(FLOAT, INT)
        same = build.step("float_equal", x, best.value)
        build.branch(same, Edge(tied, []), Edge(on, carried))
        build.block = tied
        n = build.step("int_add", carried[1], build.constant(1))
        part = build.step("divide", build.step("subtract", x, carried[0]), _float(build, n))
        build.jump(on, build.step("add", carried[0], part), n)
        build.block = on
        return list(on.parameters)

    first = [best.value, build.constant(0)]
    total, _ = views.nested(build, _counts(reader, a), body, first)
    build.jump(after, total)
    build.block = after
    return Number(FLOAT, after.parameters[0], True)


def _float(build, n: Value) -> Value:
    return build.step("int_to_float", n)


def _index_of(better: Callable):
    def reduction(reader, a: Array) -> Number:
        _, index, _ = _found(reader, a, better)
        return of_numpy(reader.builder, INT, index, natural=True)

    return reduction


# --- along axes -----------------------------------------------------------------------------------


def _along(reader, a: Array, axes: list[int], keepdims: bool, reduction: Callable) -> Form:
    """A reduction along axes, of each of the elements that the others number."""
    rest = [k for k in range(len(a.lengths)) if k not in axes]
    if not rest and not keepdims:
        return reduction(reader, a)
    lengths = [a.lengths[k] if k in rest else Known(1) for k in range(len(a.lengths))]
    made = new(
        reader,
        tuple(lengths if keepdims else [a.lengths[k] for k in rest]),
        _kind(reader, a, reduction),
    )
    target = _with_axes(made, rest) if keepdims else made

    def body(indices: list[Value], _: list) -> list:
        first = element(reader, _with_axes(a, rest), _places(indices))
        part = dataclasses.replace(_with_axes(a, axes), address=first.address)
        stored(reader, element(reader, target, _places(indices)), reduction(reader, part))
        return []

    views.nested(reader.builder, _counts(reader, target), body, [])
    return dataclasses.replace(made, plain=a.plain)


def _with_axes(a: Array, axes: list[int]) -> Array:
    lengths, strides = (tuple([those[k] for k in axes]) for those in (a.lengths, a.strides))
    return dataclasses.replace(a, lengths=lengths, strides=strides)


def _kind(reader, a: Array, reduction: Callable) -> str:
    """The kind of a reduction's result; the blocks that it makes are unreachable."""
    block, reader.builder.block = reader.builder.block, Block(-1)
    try:
        return reduction(reader, a).kind
    finally:
        reader.builder.block = block


def _axes_of(axis: Form, ndim: int) -> list[int]:
    given = axis.items if isinstance(axis, Tuple) else (axis,)
    if isinstance(axis, Known) and isinstance(axis.value, tuple):
        given = tuple(map(Known, axis.value))
    if axis.head == NONE.head:
        return list(range(ndim))
    if not all(isinstance(one, Known) and type(one.value) is int for one in given):
        raise Refused("a reduction along an axis that is computed")
    numbers = [one.value for one in given]  # type: ignore[attr-defined]
    if not all(-ndim <= one < ndim for one in numbers):
        raise Raises("AxisError")
    axes = {one % ndim for one in numbers}
    if len(axes) < len(numbers):
        raise Raises("ValueError: duplicate value in 'axis'")
    return sorted(axes)


def _is_first(axis: Form) -> bool:
    """Whether it is 0 or -1, along which ufuncs reduce numbers, too."""
    return isinstance(axis, Known) and type(axis.value) is int and axis.value in (0, -1)


def along_axes(reader, a: Array, axis: Form, keepdims: bool, reduction: Callable) -> Form:
    """A reduction along axes, given as NumPy's functions take them."""
    return _along(reader, a, _axes_of(axis, len(a.lengths)), keepdims, reduction)


def _handler(name: str, reduction: Callable):
    """`np.name(a, axis, keepdims=…)`, also as a method."""
    of_number = name in ("sum", "prod", "mean", "max", "min")
    of_one_axis = name in ("argmax", "argmin")

    def handler(s, form, axis=NONE, *, keepdims=Known(False)):  # noqa: B008
        form = settled(s.builder, form)
        is_whole = axis.head == NONE.head or (name != "mean" and _is_first(axis))
        if of_number and is_float(form) and is_whole:
            return quiet(form)
        is_known = isinstance(form, Array) and form.element != NARROW
        if not is_known or not isinstance(keepdims, Known):
            raise Refused(f"the reduction {name} of {described(form)}")
        if of_one_axis and axis.head != NONE.head and type(getattr(axis, "value", None)) is not int:
            raise Raises("TypeError: an axis of argmax or argmin is an integer")
        return along_axes(s.reader, form, axis, bool(keepdims.value), reduction)

    return handler


REDUCTIONS: dict[str, Callable] = {
    name: _handler(name, reduction)
    for name, reduction in {
        "sum": _rounded_once(summed),
        "prod": _accumulated(operator.mul, 1),
        "mean": _rounded_once(mean),
        "max": _rounded_once(_extreme(operator.gt)),
        "min": _rounded_once(_extreme(operator.lt)),
        "argmax": _rounded_once(_index_of(operator.gt)),
        "argmin": _rounded_once(_index_of(operator.lt)),
        "any": _truths("bool_or"),
        "all": _truths("bool_and"),
    }.items()
}


# --- Logarithms of sums of exponentials, and the shares in these: `logsumexp`, `softmax` ----------


def _total(reader, a: Array) -> Number:
    """Two by two: no exponential overflows, and each step has the derivatives of the operation."""

    def step(total: Form, x: Form) -> Form:
        return applied(reader.builder, "logaddexp", total, x)

    return folded_elements(reader, a, step, Known(-math.inf), FLOAT)


def _prepared(s, name: str, form: Form) -> Array:
    form = settled(s.builder, form)
    if not isinstance(form, Array) or form.element != FLOAT:
        raise Refused(f"{name} of {described(form)}")
    return form


def _logsumexp(s, a, axis=NONE, b=NONE, keepdims=Known(False)):  # noqa: B008
    if b.head != NONE.head or not isinstance(keepdims, Known):
        raise Refused("logsumexp with weights")
    array = _prepared(s, "logsumexp", a)
    return along_axes(s.reader, array, axis, bool(keepdims.value), _total)


def _log_softmax(s, x, axis=NONE):
    array = _prepared(s, "log_softmax", x)
    totals = along_axes(s.reader, array, axis, True, _total)
    return operator_of(s.reader, operator.sub, array, totals)


def _softmax(s, x, axis=NONE):
    build, array = s.builder, _prepared(s, "softmax", x)
    totals = along_axes(s.reader, array, axis, True, _total)

    def share(one: Form, total: Form) -> Form:
        return applied(build, "exp", arithmetic(build, operator.sub, one, total))

    return mapped(s.reader, share, array, totals)


_HANDLERS: dict[str, Callable] = {
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}


def handler_of(function) -> Callable | None:
    """The replacement of one of these functions, of SciPy or of ours."""
    name = getattr(function, "__name__", None)
    if name not in _HANDLERS:
        return None
    theirs = getattr(sys.modules.get("scipy.special"), name, None)
    return _HANDLERS[name] if function in (theirs, PUBLIC[name]) else None


# --- gathers --------------------------------------------------------------------------------------
# Items of arrays by arrays of integers or of truths: new arrays.


def indexed(reader, array: Array, index: Form) -> Form:
    """`array[index]`: an element, a view, or a new array of items."""
    parts = [_as_array(reader, one) for one in views.parts_of(array, index)]
    arrays = [(k, one) for k, one in enumerate(parts) if isinstance(one, Array)]
    if not arrays:
        return views.indexed(reader, array, index)
    at, chosen = arrays[0]
    if len(arrays) > 1 or not all(map(is_slice, (*parts[:at], *parts[at + 1 :]))):
        raise Refused("an array indexed by several arrays, or by an array and numbers")
    whole = Tuple((*parts[:at], Known(slice(None)), *parts[at + 1 :]))
    array = views.view(reader, array, whole)
    if chosen.element == BOOL and len(chosen.lengths) == 1:
        chosen = _places_of_truths(reader, array.lengths[at], chosen)
    if chosen.element not in (INT, NARROW):
        raise Refused(f"an array indexed by {described(chosen)} that are no integers")
    return _gathered(reader, array, at, chosen)


def _as_array(reader, form: Form) -> Form:
    """A list of known integers as an array, which it is as an index; others as they are."""
    if not isinstance(form, Ref):
        return form
    contents = reader.contents(form)
    items = contents.items if contents.what == "list" else (form,)
    places = [getattr(one, "value", None) for one in items]
    if not all(type(one) is int for one in places):
        raise Refused(f"an array indexed by {described(form)}")
    return reader.constant(("array", repr(places)), np.array(places, np.int64))


def _gathered(reader, array: Array, axis: int, chosen: Array) -> Array:
    """The items at places along an axis."""
    build, count = reader.builder, len(chosen.lengths)
    lengths = (*array.lengths[:axis], *chosen.lengths, *array.lengths[axis + 1 :])
    made = views.new(reader, lengths, array.element)

    def body(indices: list[Value], _: list) -> list:
        every: list[Form] = [Number(INT, k, natural=True) for k in indices]
        before, own, after = every[:axis], every[axis : axis + count], every[axis + count :]
        place = position(reader, views.of(reader, chosen, own), array.lengths[axis])
        item = views.of(reader, array, [*before, place, *after])
        views.stored(reader, views.element(reader, made, every), item)
        return []

    views.nested(build, [converted(build, one, INT) for one in lengths], body, [])
    return dataclasses.replace(made, plain=array.plain)


def _places_of_truths(reader, length: Form, chosen: Array) -> Array:
    """The places of an array of truths that are set."""
    views.same_length(reader, chosen.lengths[0], length)
    build, zero = reader.builder, reader.builder.constant(0)
    size = converted(build, length, INT)

    def is_set(k: Value) -> Value:
        here = views.of(reader, chosen, [Number(INT, k, natural=True)])
        return build.step("bool_to_int", converted(build, here, BOOL))

    def counted(k: Value, found: list) -> list:
        return [build.step("int_add", found[0], is_set(k))]

    (count,) = views.counted(build, size, counted, [zero])
    room = natural(number(build.step("int_add", count, build.constant(1))))
    made = views.new(reader, (room,), INT)

    def written(k: Value, found: list) -> list:  # a place that is not wanted is written over
        here = natural(number(found[0]))
        views.stored(reader, views.element(reader, made, [here]), number(k))
        return [build.step("int_add", found[0], is_set(k))]

    views.counted(build, size, written, [zero])
    return dataclasses.replace(made, lengths=(natural(number(count)),))
