"""Files of compiled functions: programs of all signatures, graphs. See docs/program_files.md."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import POWERS, STEERING, TABLE, Pointwise
from ..._core.tape.sweeps import copied, copy_axes
from ..._core.tensor.registry import load_families
from ..._core.tensor.trace import Guard
from ..._flow.ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    GraphInput,
    GraphStep,
    Jump,
    Leave,
    MemoryRegion,
    Place,
    Reason,
    Return,
    SourceLine,
    Value,
    dominators,
    ordered,
    validate_with,
    ways_in,
)
from ..._flow.kinds.step_kinds import BOOL, CHOICE, FLOAT, INT, KINDS, PLACE, kind_of
from ..._flow.program import Limits
from ..._flow.reading.forms import (
    SINGLE,
    Array,
    Contents,
    Form,
    Known,
    Number,
    Tuple,
    described,
    kinds_of,
)
from ..._flow.reading.readings import Reading
from ..build.executable import interpreted
from ..dispatch.evaluation import Compilation
from ..dispatch.flows import Flow, inputs_of
from ..dispatch.signature import NUMPYS, kind_of_key, structure
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
    short,
    text,
    truth,
)
from ..passes.memory_reuse import taken_up
from .encode import MOST_BYTES, FileReader, FileWriter, check, dtype_named, read, write

# --- signature format -----------------------------------------------------------------------------
# What calls a program or a graph of a file serves, and the structure of results.


# --- What calls a program or a graph of a file serves, and the structure of results ---------------


_DICTS = (dict, collections.OrderedDict)
_CONTAINERS = {one.__name__: one for one in (tuple, list, complex, *_DICTS)}
#: Types of arguments that belong to the signature by their value, and of results that are fixed.
STATIC = (bool, int, str, bytes, type(None))


def encode_structure(writer: FileWriter, made) -> Any:
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


def read_structure(reader: FileReader, item) -> Any:
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


def encode_signature(writer: FileWriter, key: tuple) -> dict:
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


def _leaf(writer: FileWriter, leaf: tuple) -> dict:
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


def _read_leaf(reader: FileReader, item, of_graph: bool) -> tuple:
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


def read_signature(reader: FileReader, found: list, of_graph: bool = False) -> tuple[tuple, list]:
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
_ELEMENTS = (FLOAT, SINGLE, INT, BOOL)


def encode_form(writer: FileWriter, form: Form) -> dict:
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


def read_form(reader: FileReader, item) -> Form:
    if type(item) is not dict or len(item) != 1:
        raise ValueError(f"{short(item)} is no result")
    ((name, content),) = item.items()
    if name == "number":
        if content not in _ELEMENTS:
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


def _forms(reader: FileReader, item: Any) -> tuple[Form, ...]:
    return tuple([read_form(reader, one) for one in items(item)])


def _known(reader: FileReader, content) -> Known:
    value = reader.value(content)
    if type(value) not in _FIXED:
        raise ValueError(f"a result that is fixed is a {type(value).__name__}")
    return Known(value)


def _array(reader: FileReader, content) -> Array:
    """An array from the forms of its address, lengths and strides, integers each."""
    element, given = items(content, 2)
    address, *rest = _forms(reader, given)
    for part in (address, *rest):
        if isinstance(part, Known):
            integer(part.value)
        elif not isinstance(part, Number) or part.kind != INT:
            raise ValueError("the place of an array is no integer")
    if element not in _ELEMENTS or not rest or len(rest) % 2:
        raise ValueError(f"an array of {short(element)} has {len(rest)} lengths and strides")
    ndim = len(rest) // 2
    return Array(address, tuple(rest[:ndim]), tuple(rest[ndim:]), -1, element)


# --- graph format ---------------------------------------------------------------------------------
# Graphs of loops and branches in files: blocks, what calls they serve, the form of the result.
#
# Values are numbered in the order in which blocks have them: parameters, then results of steps. So
# each is set once, and its kind follows from the operation.

#: The most steps that a call computes, which protects from infinite loops.
MOST_STEPS = 1 << 38


def _known_kinds() -> set[str]:
    """The operations of graphs that files have names for: not those of users."""
    declared = (*TABLE.values(), *STEERING.values(), *POWERS.values())
    return {*KINDS, *(op.name for op in declared if isinstance(op, Pointwise))}


# --- written --------------------------------------------------------------------------------------


def encode_graph(writer: FileWriter, flow: Flow) -> dict:
    """A graph, and what it needs for calls; ValueError for what files have no name for."""
    graph = flow.primal.program.graph
    encoder = _Encoder(graph)
    return {
        **encode_signature(writer, flow.key),
        "hidden": [writer.array(array) for array in flow.hidden],
        "inputs": [one.region for one in graph.inputs],
        "regions": "".join(one.kind for one in graph.regions),
        "lines": [one and list(one[:3]) for one in graph.lines],
        "reasons": [list(one) for one in graph.reasons],
        "blocks": [encoder.block(*one) for one in zip(*encoder.in_order(), strict=True)],
        "result": encode_form(writer, flow.form),
    }


class _Encoder:
    """Parts of a graph as JSON."""

    def __init__(self, graph: Graph):
        self.blocks, self.known = ordered(graph), _known_kinds()
        self.places = {block: k for k, block in enumerate(self.blocks)}
        self.numbers: dict[Value, int] = {}
        self.notes: dict[Any, int] = {}  # numbers of selects, those that are left
        for block in self.blocks:
            results = [step.result for step in block.steps if step.result is not None]
            for value in (*block.parameters, *results):
                self.numbers[value] = len(self.numbers)

    def in_order(self) -> tuple[list[Block], list[int]]:
        """The blocks, and the nearest dominator of each."""
        return self.blocks, dominators(self.blocks, ways_in(self.blocks))

    def block(self, block: Block, dominator: int) -> dict:
        return {
            "dominator": dominator,
            "parameters": "".join(one.kind for one in block.parameters),
            "steps": [self.step(step) for step in block.steps],
            "end": self.end(block.end),
        }

    def of(self, values) -> list[int]:
        return [self.numbers[one] for one in values]

    def step(self, step: GraphStep) -> list:
        if step.op not in self.known:
            raise ValueError(f"its graph has {step.op}, which files have no name for")
        payload: Any = step.payload
        if isinstance(payload, Place):
            payload = [payload.region, payload.space] if payload.space else payload.region
        elif isinstance(payload, float):
            payload = payload.hex()
        elif kind_of(step.op).payload == CHOICE and payload is not None:
            payload = self.notes.setdefault(payload, len(self.notes))
        return [step.op, self.of(step.operands), payload, step.line]

    def end(self, end) -> dict:
        if isinstance(end, Jump):
            return {"jump": self.edge(end.edge)}
        if isinstance(end, Branch):
            (condition,) = self.of(end.reads)
            return {"branch": [condition, self.edge(end.then), self.edge(end.other), end.line]}
        if isinstance(end, Return):
            return {"return": self.of(end.results)}
        return {"leave": end.reason}

    def edge(self, edge: Edge) -> list:
        return [self.places[edge.target], self.of(edge.arguments)]


# --- read -----------------------------------------------------------------------------------------


def read_graph(reader: FileReader, item, most_bytes: int) -> Flow:
    """A graph of a file, checked; what it does at run time, above all addresses, is limited."""
    parts = "hidden", "inputs", "regions", "lines", "reasons", "blocks", "result"
    found = fields(item, *SIGNATURE, *parts)
    hidden, regions_of_inputs, regions, lines, reasons, blocks, result = found[len(SIGNATURE) :]
    key, _ = read_signature(reader, found[: len(SIGNATURE)], of_graph=True)
    arrays = [reader.array(one) for one in items(hidden)]
    graph = Graph()
    graph.inputs = _read_inputs(key, arrays, integers(regions_of_inputs))
    graph.regions = [MemoryRegion(_one_of(kind, FLOAT + INT)) for kind in text(regions)]
    graph.lines = [
        None if one is None else SourceLine(*reader.frame(one), False) for one in items(lines)
    ]
    graph.reasons = [Reason(label(why), integer(line)) for why, line in pairs(reasons)]
    decoder = _Decoder(graph, items(blocks))
    validate_with(graph, graph.blocks, decoder.dominators)
    form = read_form(reader, result)
    ends = [block.end for block in graph.blocks if isinstance(block.end, Return)]
    if any(tuple([one.kind for one in end.results]) != kinds_of(form) for end in ends):
        raise ValueError("a graph returns other numbers than its result has")
    limits = Limits(most_bytes // 16, max(1, MOST_STEPS // _longest(graph)), are_checked=True)
    return Flow(Reading(graph, form, [], arrays), key, limits)


def _read_inputs(
    key: tuple, hidden: list[np.ndarray], regions: tuple[int, ...]
) -> list[GraphInput]:
    """The inputs of calls, then the arrays that the function read outside."""
    given = [(len(lengths), differentiated) for _, lengths, differentiated in inputs_of(key)]
    given += [(array.ndim, False) for array in hidden]
    if len(regions) != len(given):
        raise ValueError(f"a graph has {len(regions)} inputs, and its calls {len(given)}")
    pairs_of = zip(given, regions, strict=True)
    return [GraphInput(ndim or None, wanted, region) for (ndim, wanted), region in pairs_of]


def _one_of(item, known: str) -> str:
    if item not in known:
        raise ValueError(f"{short(item)} is none of the kinds {known}")
    return item


def _longest(graph: Graph) -> int:
    """What a round of a block computes at most."""
    ends = [(block, block.end.edges) for block in graph.blocks]
    return max(
        1 + len(block.steps) + sum(len(edge.arguments) for edge in edges) for block, edges in ends
    )


#: Spaces of the memory of a graph, one for the values and one for tangents of each function that is
#: differentiated in it.
_SPACES = 64


class _Decoder:
    """Blocks from JSON, put into a graph; `validate_with` checks what is not checked here."""

    def __init__(self, graph: Graph, blocks: list):
        self.graph, self.known = graph, _known_kinds()
        self.values: list[Value] = []
        self.dominators: list[int] = []
        if not blocks:
            raise ValueError("a graph has no blocks")
        graph.blocks = [Block(k) for k in range(len(blocks))]
        for block, item in zip(graph.blocks, blocks, strict=True):
            dominator, parameters, steps, end = fields(
                item, "dominator", "parameters", "steps", "end"
            )
            if not 0 <= integer(dominator) < max(block.number, 1):
                raise ValueError(f"block {block.number} is dominated by {dominator}")
            self.dominators.append(dominator)
            block.parameters = [self.value(_one_of(kind, "fib")) for kind in text(parameters)]
            block.steps = [self.step(one) for one in items(steps)]
            block.end = self.end(end)

    def value(self, kind: str) -> Value:
        self.values.append(self.graph.value(kind))
        return self.values[-1]

    def of(self, numbers) -> list[Value]:
        found = integers(numbers)
        if any(not 0 <= number < len(self.values) for number in found):
            raise ValueError("a graph reads what is not set")
        return [self.values[number] for number in found]

    def step(self, item) -> GraphStep:
        op, operands, payload, line = items(item, 4)
        if type(op) is not str or op not in self.known:
            raise ValueError(f"there is no operation {short(op)}")
        read = tuple(self.of(operands))
        kind = kind_of(op)
        if kind.payload == PLACE:
            region, space = integers(payload) if type(payload) is list else (integer(payload), 0)
            if not 0 <= space < _SPACES:
                raise ValueError(f"the memory of a graph has no space {space}")
            payload = Place(region, space)
            self.graph.spaces = max(self.graph.spaces, space + 1)
            if kind.is_store and 0 <= region < len(self.graph.regions):
                self.graph.regions[region].written = True
        elif kind.is_constant and kind.result == FLOAT:
            payload = float.fromhex(text(payload))
        elif kind.payload == CHOICE and payload is not None:
            if not 0 <= integer(payload) <= self.graph.selects:
                raise ValueError(f"select {payload} comes before others")
            self.graph.selects = max(self.graph.selects, payload + 1)
        result = self.value(kind.result) if kind.result else None
        return GraphStep(op, read, result, payload, integer(line))

    def end(self, item) -> Any:
        if type(item) is not dict or len(item) != 1 or not set(item) <= set(_ENDS):
            raise ValueError(f"{short(item)} is no end of a block")
        ((name, content),) = item.items()
        return _ENDS[name](self, content)

    def edge(self, item) -> Edge:
        target, arguments = items(item, 2)
        if not 0 <= integer(target) < len(self.graph.blocks):
            raise ValueError(f"there is no block {target}")
        return Edge(self.graph.blocks[target], self.of(arguments))

    def branch(self, item) -> Branch:
        condition, then, other, line = items(item, 4)
        (read,) = self.of([condition])
        return Branch(read, self.edge(then), self.edge(other), integer(line))


_ENDS: dict[str, Callable[[_Decoder, Any], Any]] = {
    "jump": lambda decoder, item: Jump(decoder.edge(item)),
    "branch": _Decoder.branch,
    "return": lambda decoder, item: Return(tuple(decoder.of(item))),
    "leave": lambda decoder, item: Leave(integer(item)),
}


# --- file format ----------------------------------------------------------------------------------
# Files of compiled functions: programs of all signatures, graphs. See docs/program_files.md.

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
    writer = FileWriter()
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
    return _read_function(FileReader(pools, items(operations)), function, most_bytes)


def _function(writer: FileWriter, found: Compilation) -> dict:
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


def _read_function(reader: FileReader, item, most_bytes: int) -> Compilation:
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


def _family(reader: FileReader, item, most_bytes: int) -> tuple[tuple, Variants]:
    *signature, variants = fields(item, *SIGNATURE, "variants")
    key, inputs = read_signature(reader, signature)
    found = [_read_variant(reader, one, inputs, most_bytes) for one in items(variants)]
    family = Variants(max(len(found), 1))
    family.found = found
    return key, family


def _variant(writer: FileWriter, variant: Variant) -> dict:
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


def _read_variant(reader: FileReader, item, inputs: list, most_bytes: int) -> Variant:
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


def _read_code(reader: FileReader, program: list, most_bytes: int) -> Code:
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


def _read_input(reader: FileReader, item) -> Input:
    view, dtype, differentiated = items(item, 3)
    return Input(reader.view(view), dtype_named(dtype), truth(differentiated))


def _read_result(reader: FileReader, item, outputs: list[Output]) -> tuple[int, Any]:
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


def _constant(writer: FileWriter, given) -> list:
    """A result that never changes, and the order in memory if it is an array."""
    axes = copy_axes(given) if isinstance(given, np.ndarray) else None
    return [writer.value(given), encode_order(axes)]


def _read_guards(reader: FileReader, values, places, code: Code) -> list[Guard]:
    found, frames = reader.array(values, np.float64), items(places)
    count = sum(len(step.guards) for step in code.of(Scalars).values())
    if found.shape != (count,) or len(frames) != count:
        raise ValueError(f"its {count} guards have {len(frames)} places")
    return [
        Guard(None, 0, value, 0, tuple(map(reader.frame, items(place))), label(how))
        for value, (how, place) in zip(found.tolist(), pairs(frames), strict=True)
    ]
