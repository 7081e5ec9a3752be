"""Files of compiled functions: programs of all signatures, graphs. See docs/program_files.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.tape.sweeps import copied, copy_axes
from ..._core.tensor.registry import load_families
from ..._core.tensor.trace import Guard
from ..build.executable import interpreted
from ..dispatch.evaluation import Compilation
from ..dispatch.signature import structure
from ..dispatch.variants import Variant, Variants
from ..ir.scalars_step import Scalars
from ..ir.steps import (
    DOUBLE,
    Code,
    Input,
    Output,
    fields,
    integer,
    integers,
    items,
    label,
    pairs,
    text,
    truth,
)
from ..passes.input_planning import taken_up
from .encode import MOST_BYTES, Reader, Writer, check, dtype_named, read, write
from .graph_format import encode_graph, read_graph
from .signature_format import (
    SIGNATURE,
    built,
    count_leaves,
    encode_order,
    encode_signature,
    encode_structure,
    read_order,
    read_signature,
    read_structure,
)

FORMAT, VERSION = "tapegrad program", 2
_NOTHING = (
    "there is no program yet, or what the function reads has changed since; call the function first"
)
#: Kinds of results of a function.
_KINDS = ("value", "value_and_grad", "grad")


def save(path, found: Compilation) -> None:
    """Write a file; raises ValueError for objects that it cannot hold, or if calls are eager."""
    if found.reason is not None:  # whatever programs it has from before
        raise ValueError(found.reason)
    writer = Writer()
    function = _function(writer, found)
    if not any(function[one] for one in ("signatures", "graphs", "derived")):
        raise ValueError(_NOTHING)
    columns = list(writer.columns)
    header = {"format": FORMAT, "version": VERSION, "operations": columns, "function": function}
    write(path, header, writer.pools.joined())


def load(path, most_bytes: int = MOST_BYTES) -> Compilation:
    """Read a file. Everything is checked before any of it can run."""
    load_families()  # a file names operations of any
    header, pools = read(path, most_bytes)
    if type(header) is not dict or header.get("format") != FORMAT:
        raise ValueError("it is no program")
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"its version is {version!r:.20}; this tapegrad reads version {VERSION}")
    _, _, operations, function = fields(header, "format", "version", "operations", "function")
    return _read_function(Reader(pools, items(operations)), function, most_bytes)


def _function(writer: Writer, found: Compilation) -> dict:
    signatures = [
        {**encode_signature(writer, key), "variants": [_variant(writer, v) for v in variants]}
        for key, family in found.families.items()
        if (variants := [one for one in family.found if one.names.unchanged()])
    ]
    return {
        "name": found.name,
        "kind": found.kind,
        "argnums": [int(number) for number in found.argnums],
        "single": found.single,
        "signatures": signatures,
        "graphs": [encode_graph(writer, flow) for flow in found.graphs if flow.is_like],
        "derived": {
            name: _function(writer, one)
            for name, one in found.derived.items()
            if one.reason is None
        },
    }


def _read_function(reader: Reader, item, most_bytes: int) -> Compilation:
    name, kind, argnums, single, signatures, graphs, derived = fields(
        item, "name", "kind", "argnums", "single", "signatures", "graphs", "derived"
    )
    numbers = integers(argnums)
    if kind not in _KINDS or not numbers or (truth(single) and len(numbers) != 1):
        raise ValueError("it does not say what is computed")
    if type(derived) is not dict:
        raise ValueError("its transforms have no names")
    return Compilation(
        label(name),
        kind,
        numbers,
        single,
        dict(_family(reader, one, most_bytes) for one in items(signatures)),
        {text(key): _read_function(reader, one, most_bytes) for key, one in derived.items()},
        graphs=tuple([read_graph(reader, one, most_bytes) for one in items(graphs)]),
    )


# --- programs -----------------------------------------------------------------------------------


def _family(reader: Reader, item, most_bytes: int) -> tuple[tuple, Variants]:
    *signature, variants = fields(item, *SIGNATURE, "variants")
    key, inputs = read_signature(reader, signature)
    found = [_read_variant(reader, one, inputs, most_bytes) for one in items(variants)]
    family = Variants(max(len(found), 1))
    family.found = found
    return key, family


def _variant(writer: Writer, variant: Variant) -> dict:
    code = taken_up(variant.program.source)
    return {
        "slots": code.slots,
        "constants": [[slot, writer.array(values)] for slot, values in code.constants],
        "inputs": [[writer.view(x.view), x.dtype.name, x.differentiated] for x in code.inputs],
        "steps": [writer.step(step) for step in code.steps],
        "outputs": [[writer.view(x.view), x.dtype.name] for x in code.outputs],
        "clears": [[k, [writer.view(v) for v in views]] for k, views in code.clears.items()],
        "guards": writer.array(np.array([guard.value for guard in variant.guards], np.float64)),
        "places": [[guard.how, [list(frame) for frame in guard.place]] for guard in variant.guards],
        "tree": encode_structure(writer, structure(variant.tree)),
        "leaves": [
            {"output": [k, encode_order(given)]} if k >= 0 else {"value": _constant(writer, given)}
            for k, given in variant.leaves
        ],
        "exact": variant.is_exact,
    }


def _read_variant(reader: Reader, item, inputs: list, most_bytes: int) -> Variant:
    code_fields = "slots", "constants", "inputs", "steps", "outputs", "clears"
    item = {"exact": False, **item} if type(item) is dict else item  # which files had not always
    *program, guards, places, tree, leaves, exact = fields(
        item, *code_fields, "guards", "places", "tree", "leaves", "exact"
    )
    code = _read_code(reader, program, most_bytes)
    check(code, most_bytes // 8)
    if [(x.dtype.str, x.view.shape, x.differentiated) for x in code.inputs] != inputs:
        raise ValueError("a program has other inputs than its signature")
    made = read_structure(reader, tree)
    found = [_read_result(reader, leaf, code.outputs) for leaf in items(leaves)]
    if len(found) != count_leaves(made):
        raise ValueError("a result has leaves of another number")
    learned = _read_guards(reader, guards, places, code)
    return Variant(interpreted(code), learned, built(made), found, checked=2, is_exact=truth(exact))


def _read_code(reader: Reader, program: list, most_bytes: int) -> Code:
    slots, constants, given, steps, outputs, clears = program
    if 16 * integer(slots) > most_bytes:
        raise ValueError(
            f"a program needs {16 * slots} bytes for values and adjoints; allow more than "
            f"{most_bytes} with most_bytes="
        )
    inputs = [_read_input(reader, x) for x in items(given)]
    is_single = any(one.dtype == np.float32 for one in inputs)
    return Code(
        slots,
        [(integer(slot), reader.array(x)) for slot, x in pairs(constants)],
        inputs,
        [reader.step(x) for x in items(steps)],
        [Output(reader.view(v), dtype_named(d)) for v, d in pairs(outputs)],
        {integer(k): [reader.view(v) for v in items(views)] for k, views in pairs(clears)},
        np.dtype(np.float32) if is_single else DOUBLE,
    )


def _read_input(reader: Reader, item) -> Input:
    view, dtype, differentiated = items(item, 3)
    return Input(reader.view(view), dtype_named(dtype), truth(differentiated))


def _read_result(reader: Reader, item, outputs: list[Output]) -> tuple[int, Any]:
    if type(item) is dict and set(item) == {"output"}:
        number, order = items(item["output"], 2)
        if not 0 <= integer(number) < len(outputs):
            raise ValueError(f"there is no result {number}")
        return number, read_order(order, outputs[number].view.shape)
    (pair,) = fields(item, "value")
    value, order = items(pair, 2)
    found = reader.value(value)
    if order is None:
        return -1, found
    if not isinstance(found, np.ndarray):
        raise ValueError("a result that is no array has an order in memory")
    return -1, copied(found, read_order(order, found.shape))


def _constant(writer: Writer, given) -> list:
    """A result that never changes, and the order in memory if it is an array."""
    axes = copy_axes(given) if isinstance(given, np.ndarray) else None
    return [writer.value(given), encode_order(axes)]


def _read_guards(reader: Reader, values, places, code: Code) -> list[Guard]:
    found, frames = reader.array(values, np.float64), items(places)
    count = sum(len(step.guards) for step in code.of(Scalars).values())
    if found.shape != (count,) or len(frames) != count:
        raise ValueError(f"its {count} guards have {len(frames)} places")
    return [
        Guard(None, 0, value, 0, tuple(map(reader.frame, items(place))), label(how))
        for value, (how, place) in zip(found.tolist(), pairs(frames), strict=True)
    ]
