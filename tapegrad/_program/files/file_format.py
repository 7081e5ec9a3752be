"""Files of compiled functions: all programs of all signatures. See docs/program_files.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.tape.memory_order import copied, copy_axes
from ..._core.tensor.registry import load_families
from ..._core.tensor.trace import Guard
from ..build.executable import interpreted
from ..dispatch.signature import structure
from ..dispatch.variants import Compilation, Variant, Variants
from ..ir.json_values import fields, integer, integers, items, pairs, text, truth
from ..ir.scalars_step import Scalars
from ..ir.steps import Code, Input, Output
from .archive import read, write
from .decode import Reader, dtype_named
from .encode import Writer
from .verify import check

FORMAT, VERSION = "tapegrad program", 1
#: The default limit of bytes of values and adjoints of a program of a file.
MOST_BYTES = 1 << 32
#: Kinds of results of a function.
_KINDS = ("value", "value_and_grad", "grad")
_CONTAINERS = {"tuple": tuple, "list": list, "dict": dict, "complex": complex}
#: Arguments that belong to the signature by their value.
_STATIC = (bool, int, str, bytes, type(None))


def save(path, found: Compilation) -> None:
    """Write a file; raises ValueError for objects that a file cannot hold."""
    writer = Writer()
    function = _function(writer, found)
    if not function["signatures"] and not function["derived"]:
        raise ValueError(found.reason or "there is no program yet; call the function first")
    operations = list(writer.names.values())
    header = {"format": FORMAT, "version": VERSION, "operations": operations, "function": function}
    write(path, header, writer.pools.joined())


def load(path, most_bytes: int = MOST_BYTES) -> Compilation:
    """Read a file. Everything is checked before any of it can run."""
    load_families()  # a file names operations of any
    header, pools = read(path)
    if type(header) is not dict or header.get("format") != FORMAT:
        raise ValueError("it is no program")
    if header.get("version") != VERSION:
        version = header.get("version")
        raise ValueError(f"its version is {version!r:.20}; this tapegrad reads version {VERSION}")
    _, _, operations, function = fields(header, "format", "version", "operations", "function")
    return _read_function(Reader(pools, items(operations)), function, most_bytes)


def _function(writer: Writer, found: Compilation) -> dict:
    signatures = [
        {**_signature(writer, key), "variants": [_variant(writer, v) for v in family.found]}
        for key, family in found.families.items()
        if family.found
    ]
    return {
        "name": found.name,
        "kind": found.kind,
        "argnums": [int(number) for number in found.argnums],
        "single": found.single,
        "signatures": signatures,
        "derived": {name: _function(writer, one) for name, one in found.derived.items()},
    }


def _read_function(reader: Reader, item, most_bytes: int) -> Compilation:
    name, kind, argnums, single, signatures, derived = fields(
        item, "name", "kind", "argnums", "single", "signatures", "derived"
    )
    numbers = integers(argnums)
    if kind not in _KINDS or not numbers or (truth(single) and len(numbers) != 1):
        raise ValueError("it does not say what is computed")
    if type(derived) is not dict:
        raise ValueError("its transforms have no names")
    return Compilation(
        text(name),
        kind,
        numbers,
        single,
        dict(_family(reader, one, most_bytes) for one in items(signatures)),
        {text(key): _read_function(reader, one, most_bytes) for key, one in derived.items()},
    )


# --- signatures ---------------------------------------------------------------------------------


def _structure(writer: Writer, made) -> Any:
    """The containers of an argument or a result, as `structure` describes them."""
    if made is None:
        return None
    kind, inner = made
    if kind is dict:
        return {"dict": [[writer.value(key), _structure(writer, item)] for key, item in inner]}
    if kind not in (tuple, list, complex):
        raise ValueError(f"an argument or a result is a {kind.__name__}")
    return {kind.__name__: [_structure(writer, item) for item in inner]}


def _read_structure(reader: Reader, item) -> Any:
    if item is None:
        return None
    if type(item) is not dict or len(item) != 1 or not set(item) <= set(_CONTAINERS):
        raise ValueError("an argument or a result is in an unknown container")
    ((name, inner),) = item.items()
    if name == "dict":
        return dict, tuple((reader.value(k), _read_structure(reader, v)) for k, v in pairs(inner))
    if name == "complex" and inner != [None, None]:
        raise ValueError("a complex value has two parts")
    return _CONTAINERS[name], tuple(_read_structure(reader, one) for one in items(inner))


def _built(made) -> Any:
    """A tree of a structure, with None for each leaf."""
    if made is None:
        return None
    kind, inner = made
    if kind is complex:
        return 0j
    if kind is dict:
        return {key: _built(item) for key, item in inner}
    return kind(_built(item) for item in inner)


def _leaves(made) -> int:
    if made is None:
        return 1
    kind, inner = made
    return sum(_leaves(item[1] if kind is dict else item) for item in inner)


def _signature(writer: Writer, key: tuple) -> dict:
    """The key of a call (see `Arguments`), encoded."""
    count, *rest = key
    names = [item for item in rest if type(item) is str]
    arguments = [
        [_structure(writer, made), [_leaf(writer, leaf) for leaf in leaves]]
        for made, *leaves in rest[len(names) :]
    ]
    return {"positional": count, "keywords": names, "arguments": arguments}


def _leaf(writer: Writer, leaf: tuple) -> dict:
    if len(leaf) == 4:
        dtype, shape, differentiated, order = leaf
        return {"input": [np.dtype(dtype).name, list(shape), differentiated, _order(order)]}
    kind, value = leaf
    if kind not in _STATIC:
        raise ValueError(f"an argument is {value!r:.60}, which files have no name for")
    return {"static": writer.value(value)}


def _order(axes) -> list[int] | None:
    """The axes of an array in the order of memory; None for C order."""
    return None if axes is None else list(axes)


def _read_order(item, shape) -> tuple[int, ...] | None:
    if item is None:
        return None
    axes = integers(item)
    if sorted(axes) != list(range(len(shape))):
        raise ValueError(f"the axes of an array of {len(shape)} are in the order {axes}")
    return axes


def _read_leaf(reader: Reader, item) -> tuple:
    if type(item) is dict and set(item) == {"input"}:
        dtype, shape, differentiated, order = items(item["input"], 4)
        lengths = integers(shape)
        return dtype_named(dtype).str, lengths, truth(differentiated), _read_order(order, lengths)
    (value,) = (reader.value(one) for one in fields(item, "static"))
    if type(value) not in _STATIC:
        raise ValueError("an argument that is fixed is of another type")
    return type(value), value


def _read_signature(reader: Reader, positional, keywords, arguments) -> tuple[tuple, list]:
    """The key of a call, and its inputs: dtype, shape, whether it is differentiated."""
    names, parts, inputs = list(map(text, items(keywords))), [], []
    for argument in items(arguments):
        tree, leaves = items(argument, 2)
        made = _read_structure(reader, tree)
        found = [_read_leaf(reader, leaf) for leaf in items(leaves)]
        if len(found) != _leaves(made):
            raise ValueError("an argument has leaves of another number")
        inputs += [leaf[:3] for leaf in found if len(leaf) == 4]
        parts.append((made, *found))
    if integer(positional) + len(names) != len(parts):
        raise ValueError("arguments of another number")
    return (positional, *names, *parts), inputs


def _family(reader: Reader, item, most_bytes: int) -> tuple[tuple, Variants]:
    *signature, variants = fields(item, "positional", "keywords", "arguments", "variants")
    key, inputs = _read_signature(reader, *signature)
    found = [_read_variant(reader, one, inputs, most_bytes) for one in items(variants)]
    family = Variants(max(len(found), 1))
    family.found = found
    return key, family


# --- programs -----------------------------------------------------------------------------------


def _variant(writer: Writer, variant: Variant) -> dict:
    code = variant.program.source
    return {
        "slots": code.slots,
        "constants": [[slot, writer.array(values)] for slot, values in code.constants],
        "inputs": [[writer.view(x.view), x.dtype.name, x.differentiated] for x in code.inputs],
        "steps": [writer.step(step) for step in code.steps],
        "outputs": [[writer.view(x.view), x.dtype.name] for x in code.outputs],
        "clears": [[k, [writer.view(v) for v in views]] for k, views in code.clears.items()],
        "guards": writer.array(np.array([guard.value for guard in variant.guards], np.float64)),
        "places": [[guard.how, [list(frame) for frame in guard.place]] for guard in variant.guards],
        "tree": _structure(writer, structure(variant.tree)),
        "leaves": [
            {"output": [k, _order(given)]} if k >= 0 else {"value": _constant(writer, given)}
            for k, given in variant.leaves
        ],
    }


def _read_variant(reader: Reader, item, inputs: list, most_bytes: int) -> Variant:
    code_fields = "slots", "constants", "inputs", "steps", "outputs", "clears"
    *program, guards, places, tree, leaves = fields(
        item, *code_fields, "guards", "places", "tree", "leaves"
    )
    code = _read_code(reader, program, most_bytes)
    check(code, most_bytes // 8)
    if [(x.dtype.str, x.view.shape, x.differentiated) for x in code.inputs] != inputs:
        raise ValueError("a program has other inputs than its signature")
    made = _read_structure(reader, tree)
    found = [_read_result(reader, leaf, code.outputs) for leaf in items(leaves)]
    if len(found) != _leaves(made):
        raise ValueError("a result has leaves of another number")
    learned = _read_guards(reader, guards, places, code)
    return Variant(interpreted(code), learned, _built(made), found, checked=2)


def _read_code(reader: Reader, program: list, most_bytes: int) -> Code:
    slots, constants, given, steps, outputs, clears = program
    if 16 * integer(slots) > most_bytes:
        raise ValueError(
            f"a program needs {16 * slots} bytes for values and adjoints; allow more than "
            f"{most_bytes} with most_bytes="
        )
    inputs = [_read_input(reader, x) for x in items(given)]
    floats = [one.dtype for one in inputs if one.dtype == np.float32]
    return Code(
        slots,
        [(integer(slot), reader.array(x)) for slot, x in pairs(constants)],
        inputs,
        [reader.step(x) for x in items(steps)],
        [Output(reader.view(v), dtype_named(d)) for v, d in pairs(outputs)],
        {integer(k): [reader.view(v) for v in items(views)] for k, views in pairs(clears)},
        *floats[:1],
    )


def _read_input(reader: Reader, item) -> Input:
    view, dtype, differentiated = items(item, 3)
    return Input(reader.view(view), dtype_named(dtype), truth(differentiated))


def _read_result(reader: Reader, item, outputs: list[Output]) -> tuple[int, Any]:
    if type(item) is dict and set(item) == {"output"}:
        number, order = items(item["output"], 2)
        if not 0 <= integer(number) < len(outputs):
            raise ValueError(f"there is no result {number}")
        return number, _read_order(order, outputs[number].view.shape)
    (pair,) = fields(item, "value")
    value, order = items(pair, 2)
    found = reader.value(value)
    if order is None:
        return -1, found
    if not isinstance(found, np.ndarray):
        raise ValueError("a result that is no array has an order in memory")
    return -1, copied(found, _read_order(order, found.shape))


def _constant(writer: Writer, given) -> list:
    """A result that never changes, and the order in memory if it is an array."""
    axes = copy_axes(given) if isinstance(given, np.ndarray) else None
    return [writer.value(given), _order(axes)]


def _read_guards(reader: Reader, values, places, code: Code) -> list[Guard]:
    found, frames = reader.array(values, np.float64), items(places)
    count = sum(len(step.guards) for step in code.of(Scalars).values())
    if found.shape != (count,) or len(frames) != count:
        raise ValueError(f"its {count} guards have {len(frames)} places")
    return [
        Guard(None, 0, value, 0, tuple(map(_read_frame, items(place))), text(how))
        for value, (how, place) in zip(found.tolist(), pairs(frames), strict=True)
    ]


def _read_frame(item) -> tuple[str, int, str]:
    file, line, function = items(item, 3)
    return text(file), integer(line), text(function)
