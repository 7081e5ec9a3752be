"""The form of a result of a graph: numbers, arrays, and containers of them."""

from __future__ import annotations

from typing import Any

from ..._flow.kinds.step_kinds import BOOL, FLOAT, INT
from ..._flow.reading.forms import SINGLE, Array, Contents, Form, Known, Number, Tuple, described
from ..ir.json_values import integer, items, pairs, short
from .decode import Reader
from .encode import Writer
from .signature_format import STATIC

_FIXED = (*STATIC, float)
_KINDS = (FLOAT, SINGLE, INT, BOOL)


def encode_form(writer: Writer, form: Form) -> dict:
    if isinstance(form, Number):
        return {"number": form.kind}
    if isinstance(form, Known) and type(form.value) in _FIXED:
        return {"known": writer.value(form.value)}
    if isinstance(form, Array):
        return {"array": [form.element, [encode_form(writer, part) for part in form.parts]]}
    if isinstance(form, Tuple):
        return {"tuple": [encode_form(writer, one) for one in form.items]}
    if isinstance(form, Contents) and form.what == "list":
        return {"list": [encode_form(writer, one) for one in form.items]}
    if isinstance(form, Contents) and form.what == "dict":
        given = zip(form.keys, form.items, strict=True)
        return {"dict": [[writer.value(key), encode_form(writer, one)] for key, one in given]}
    raise ValueError(f"its result is {described(form)}, which files have no name for")


def read_form(reader: Reader, item) -> Form:
    if type(item) is not dict or len(item) != 1:
        raise ValueError(f"{short(item)} is no result")
    ((name, content),) = item.items()
    if name == "number":
        if content not in _KINDS:
            raise ValueError(f"{short(content)} is no kind of numbers")
        return Number(content, None)
    if name == "known":
        return _known(reader, content)
    if name == "array":
        return _array(reader, content)
    if name == "tuple":
        return Tuple(_forms(reader, content))
    if name == "list":
        return Contents("list", (), _forms(reader, content))
    if name != "dict":
        raise ValueError(f"there are no results of the kind {short(name)}")
    keys = tuple([reader.value(key) for key, _ in pairs(content)])
    if len(set(keys)) != len(keys):
        raise ValueError("a dict has a key twice")
    return Contents("dict", keys, _forms(reader, [one for _, one in content]))


def _forms(reader: Reader, item: Any) -> tuple[Form, ...]:
    return tuple([read_form(reader, one) for one in items(item)])


def _known(reader: Reader, content) -> Known:
    value = reader.value(content)
    if type(value) not in _FIXED:
        raise ValueError(f"a result that is fixed is a {type(value).__name__}")
    return Known(value)


def _array(reader: Reader, content) -> Array:
    """An array from the forms of its address, lengths and strides, integers each."""
    element, given = items(content, 2)
    address, *rest = _forms(reader, given)
    for part in (address, *rest):
        if isinstance(part, Known):
            integer(part.value)
        elif not isinstance(part, Number) or part.kind != INT:
            raise ValueError("the place of an array is no integer")
    if element not in _KINDS or not rest or len(rest) % 2:
        raise ValueError(f"an array of {short(element)} has {len(rest)} lengths and strides")
    ndim = len(rest) // 2
    return Array(address, tuple(rest[:ndim]), tuple(rest[ndim:]), -1, element)
