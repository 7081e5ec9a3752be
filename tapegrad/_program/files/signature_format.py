"""What calls a program or a graph of a file serves, and the structure of results."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from ..._flow.kinds.step_kinds import BOOL, FLOAT, INT
from ..._flow.reading.forms import SINGLE, Array, Contents, Form, Known, Number, Tuple, described
from ..dispatch.signature import NUMPYS, kind_of_key
from ..ir.steps import fields, integer, integers, items, pairs, short, text, truth
from .encode import Reader, Writer, dtype_named

# --- What calls a program or a graph of a file serves, and the structure of results ---------------


_DICTS = (dict, collections.OrderedDict)
_CONTAINERS = {one.__name__: one for one in (tuple, list, complex, *_DICTS)}
#: Types of arguments that belong to the signature by their value, and of results that are fixed.
STATIC = (bool, int, str, bytes, type(None))


def encode_structure(writer: Writer, made) -> Any:
    """The containers of an argument or a result, as `structure` describes them."""
    if made is None:
        return None
    kind, inner = made
    if kind in _DICTS:
        return {
            kind.__name__: [
                [writer.value(key), encode_structure(writer, item)] for key, item, _ in inner
            ]
        }
    if kind not in (tuple, list, complex):
        raise ValueError(f"an argument or a result is a {kind.__name__}")
    return {kind.__name__: [encode_structure(writer, item) for item in inner]}


def read_structure(reader: Reader, item) -> Any:
    if item is None:
        return None
    if type(item) is not dict or len(item) != 1 or not set(item) <= set(_CONTAINERS):
        raise ValueError("an argument or a result is in an unknown container")
    ((name, inner),) = item.items()
    if _CONTAINERS[name] in _DICTS:
        found = [(reader.value(k), read_structure(reader, v)) for k, v in pairs(inner)]
        if len(dict(found)) != len(found):  # a TypeError where a key cannot be one
            raise ValueError("a dict has a key twice")
        return _CONTAINERS[name], tuple([(key, one, kind_of_key(key)) for key, one in found])
    if name == "complex" and inner != [None, None]:
        raise ValueError("a complex value has two parts")
    return _CONTAINERS[name], tuple(read_structure(reader, one) for one in items(inner))


def built(made) -> Any:
    """A tree of a structure, with None for each leaf."""
    if made is None:
        return None
    kind, inner = made
    if kind is complex:
        return 0j
    if kind in _DICTS:
        return kind((key, built(item)) for key, item, _ in inner)
    return kind(built(item) for item in inner)


def count_leaves(made) -> int:
    if made is None:
        return 1
    kind, inner = made
    return sum(count_leaves(item[1] if kind in _DICTS else item) for item in inner)


def encode_signature(writer: Writer, key: tuple) -> dict:
    """The key of a call (see `Arguments`), or of those that a graph serves (see `key_of`)."""
    count, *rest = key
    names = [item for item in rest if type(item) is str]
    arguments = [
        [encode_structure(writer, made), [_leaf(writer, leaf) for leaf in leaves]]
        for made, *leaves in rest[len(names) :]
    ]
    positional = count if type(count) is int else [count[0], [*map(list, count[1])]]
    return {"positional": positional, "keywords": names, "arguments": arguments}


def _read_positional(item) -> tuple[int, Any]:
    """The number of positional arguments, and the beginning of the key."""
    if type(item) is not list:
        return integer(item), item
    count, same = items(item, 2)
    found = tuple([integers(pair) for pair in pairs(same)])
    if not found or any(not 0 <= before < k for k, before in found):
        raise ValueError("arguments are the same as others that do not come before them")
    return integer(count), (count, found)


def _leaf(writer: Writer, leaf: tuple) -> dict:
    if len(leaf) > 2:
        dtype, shape, differentiated, *order = leaf
        laid = [one if one in NUMPYS else encode_order(one) for one in order]
        return {"input": [np.dtype(dtype).name, list(shape), differentiated, *laid]}
    kind, value = leaf
    if kind not in STATIC:
        raise ValueError(f"an argument is {value!r:.60}, which files have no name for")
    return {"static": writer.value(value)}


def encode_order(axes) -> list[int] | None:
    """The axes of an array in the order of memory; None for C order."""
    return None if axes is None else list(axes)


def read_order(item, shape) -> tuple[int, ...] | None:
    if item is None:
        return None
    axes = integers(item)
    if sorted(axes) != list(range(len(shape))):
        raise ValueError(f"the axes of an array of {len(shape)} are in the order {axes}")
    return axes


def _read_leaf(reader: Reader, item, of_graph: bool) -> tuple:
    if type(item) is dict and set(item) == {"input"}:
        dtype, shape, differentiated, *order = items(item["input"], 3 if of_graph else 4)
        name = dtype_named(dtype).str
        if of_graph:
            free = [None if one is None else integer(one) for one in items(shape)]
            return name, tuple(free), truth(differentiated)
        lengths = integers(shape)
        is_numpys = lengths == () and not differentiated and order[0] in NUMPYS
        laid = order[0] if is_numpys else read_order(order[0], lengths)
        return name, lengths, truth(differentiated), laid
    (value,) = (reader.value(one) for one in fields(item, "static"))
    if type(value) not in STATIC:
        raise ValueError("an argument that is fixed is of another type")
    return type(value), value


#: The fields of a signature.
SIGNATURE = "positional", "keywords", "arguments"


def read_signature(reader: Reader, found: list, of_graph: bool = False) -> tuple[tuple, list]:
    """The key of a call, and its inputs: dtype, shape, whether it is differentiated.

    In that of calls that a graph serves, lengths may be None, and there is no order of memory.
    """
    positional, keywords, arguments = found
    names, parts, inputs = list(map(text, items(keywords))), [], []
    for argument in items(arguments):
        tree, leaves = items(argument, 2)
        made = read_structure(reader, tree)
        read = [_read_leaf(reader, leaf, of_graph) for leaf in items(leaves)]
        if len(read) != count_leaves(made):
            raise ValueError("an argument has leaves of another number")
        inputs += [leaf[:3] for leaf in read if len(leaf) > 2]
        parts.append((made, *read))
    count, first = _read_positional(positional)
    if count + len(names) != len(parts):
        raise ValueError("arguments of another number")
    return (first, *names, *parts), inputs


# --- The form of a result of a graph: numbers, arrays, and containers of them ---------------------


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
