"""Lists of numbers from outside as words of memory: the data of a list in the arena."""

from __future__ import annotations

import numpy as np

from ..kinds.step_kinds import FLOAT
from .errors import Refused
from .forms import Form, Known, Number, Tuple, kinds_of, shape_of
from .joins import element_joined
from .numbers import EXACT

#: Integers of the kind that graphs compute with.
_LARGEST = 2**62


def words_of(items: tuple[Form, ...], wanted: Form | None) -> tuple[Form, np.ndarray] | None:
    """The form of the items, which holds `wanted` too, and their words; None if there is none.

    Items are numbers, or tuples of these. An integer or a truth is a word that is no float.
    """
    element = wanted
    try:
        for one in {shape_of(form): form for form in map(_lifted, items)}.values():
            element = element_joined(element, one, _one_region)
    except Refused:
        return None
    if element is None or not _is_of_numbers(element):
        return None
    kinds = kinds_of(element)
    words = np.zeros((len(items), len(kinds)))
    columns = zip(*map(_values, items), strict=True) if items else [()] * len(kinds)
    for k, (kind, column) in enumerate(zip(kinds, columns, strict=True)):
        if kind == FLOAT:
            if any([type(x) is int and abs(x) > EXACT for x in column]):
                return None
            words[:, k] = list(map(float, column))
        elif max(map(abs, column), default=0) >= _LARGEST:
            return None
        else:
            words.view(np.int64)[:, k] = list(map(int, column))
    return element, words.reshape(-1)


def _one_region(a: int, b: int) -> None:
    """Numbers are in no memory of their own."""


def _lifted(form: Form) -> Form:
    if isinstance(form, Known) and form.kind is not None:
        return Number(form.kind, None)
    if isinstance(form, Tuple):
        return form.with_parts(tuple(map(_lifted, form.items)))
    raise Refused("an item that is no number")


def _is_of_numbers(form: Form) -> bool:
    if isinstance(form, Tuple):
        return all(map(_is_of_numbers, form.items))
    return isinstance(form, Number)


def _values(form: Form) -> list:
    if isinstance(form, Known):
        return [form.value]
    return [value for part in form.parts for value in _values(part)]
