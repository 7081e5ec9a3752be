"""Results of graphs by their forms: read from a call, seeded with adjoints, their tangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._flow.kinds.step_kinds import FLOAT, INT
from ..._flow.program import Call
from ..._flow.reading.errors import Refused
from ..._flow.reading.forms import (
    FLOATS,
    SINGLE,
    Array,
    Contents,
    Form,
    Known,
    Number,
    Tuple,
    described,
    numbers,
)


def is_result(form: Form) -> bool:
    """Whether a result of this form can be built; an array without axes may have a derivative."""
    if isinstance(form, (Tuple, Contents)):
        return all(map(is_result, form.parts))
    return isinstance(form, (Number, Known)) or (isinstance(form, Array) and bool(form.lengths))


def has_array(form: Form) -> bool:
    return isinstance(form, Array) or any(map(has_array, form.parts))


# --- leaves ---------------------------------------------------------------------------------------


def leaves_of(form: Form) -> list[Form | None]:
    """The leaves of a result; None for one that holds no numbers, or no floats in an array."""
    if isinstance(form, (Tuple, Contents)):
        return [leaf for one in form.items for leaf in leaves_of(one)]
    holds = isinstance(form, Number) or type(getattr(form, "value", None)) in (int, float)
    return [form if holds or is_float(form) else None]


def is_float(form: Form | None) -> bool:
    """Whether a leaf has a derivative: a float, or an array of them."""
    if isinstance(form, Array):
        return form.element in FLOATS
    return isinstance(form, Number) and form.kind in FLOATS


def tree_of(form: Form, leaves: Iterator) -> Any:
    """Something for each leaf of a result, in its structure."""
    if isinstance(form, Tuple):
        return tuple([tree_of(one, leaves) for one in form.items])
    if isinstance(form, Contents):
        items = [tree_of(one, leaves) for one in form.items]
        return items if form.what == "list" else dict(zip(form.keys, items, strict=True))
    return next(leaves)


def _placed(form: Form, given: Iterator) -> Iterator[tuple[Form, Any]]:
    """Each leaf with its number, or the numbers of an array: address, lengths, strides."""
    if isinstance(form, (Tuple, Contents)):
        for one in form.items:
            yield from _placed(one, given)
    elif isinstance(form, Array):
        yield form, [_number(part, given) for part in form.parts]
    else:
        yield form, _number(form, given)


def _number(form: Form, given: Iterator) -> Any:
    if isinstance(form, Number):
        return next(given)
    if isinstance(form, Known):
        return form.value
    raise Refused(f"the result is {described(form)}")


# --- what a call gives ----------------------------------------------------------------------------


def of_numbers(form: Form, results: Sequence) -> Any:
    """A result without arrays from its numbers."""
    placed = _placed(form, iter(results))
    return tree_of(form, iter([_plain(leaf, number) for leaf, number in placed]))


def _plain(leaf: Form, given) -> Any:
    """A number of a call as the function gives it."""
    return np.float32(given) if isinstance(leaf, Number) and leaf.kind == SINGLE else given


def of_call(form: Form, call: Call) -> Any:
    """A result from the numbers of a call and the arrays in its memory."""
    placed = _placed(form, iter(call.results))
    return tree_of(form, iter([_value(leaf, given, call) for leaf, given in placed]))


def _value(leaf: Form, given, call: Call) -> Any:
    """A leaf of a call; integers and truths lie in arrays as integers."""
    if not isinstance(leaf, Array):
        return _plain(leaf, given)
    words = call.array_at(given[0], given[1 : 1 + len(leaf.lengths)])
    if leaf.element == SINGLE:
        return words.astype(np.float32)
    if leaf.element == FLOAT:
        return words
    return words.view(np.int64) if leaf.element == INT else words.view(np.int64) != 0


def with_tangents_of(form: Form, call: Call) -> tuple[Any, list]:
    """A result, and the tangent of each leaf that has one, from a call of the graph of tangents."""
    count = sum(1 for one in numbers(form) if is_float(one))
    pushed, tangents = iter(call.results[len(call.results) - count :]), []
    for leaf, given in _placed(form, iter(call.results)):
        if isinstance(leaf, Array) and is_float(leaf):
            tangents.append(call.array_at(given[0], given[1 : 1 + len(leaf.lengths)], space=1))
        elif is_float(leaf):
            tangents.append(next(pushed))
    return of_call(form, call), tangents


def seeded(form: Form, adjoints: Sequence) -> Callable[[Call], list[float]]:
    """What seeds a call with an adjoint of each leaf that has one, and gives those of its numbers.

    See `FlowProgram.run`.
    """

    def seed(call: Call) -> list[float]:
        given, found = iter(adjoints), []
        for leaf, place in _placed(form, iter(call.results)):
            if isinstance(leaf, Array):
                if is_float(leaf):
                    call.seed(place[0], next(given))
                found += [0.0] * sum(1 for _ in numbers(leaf))
            elif isinstance(leaf, Number):
                found.append(float(next(given)) if is_float(leaf) else 0.0)
        return found

    return seed
