"""A function read into a graph, for arguments of given forms."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.tensor.dependencies import Checked, Dependency, own_dependencies
from ..._core.tensor.pytree import fields_of, is_fixed
from ..ir.flow_graph import Graph, Input
from ..ir.validation import validate
from ..kinds.step_kinds import FLOAT, INT
from .access import new_list
from .code import code_of
from .errors import Again, Leaves, Raises, Refused
from .forms import FLOATS, SINGLE, Array, Form, Known, Number, Tuple, shape_of
from .joins import element_joined
from .names_outside import bound_arguments
from .numbers import number
from .reader import Reader
from .state import Frame, Stack
from .statements import follow
from .views import strides_of

#: The number of times that reading restarts.
_TIMES = 40


@dataclasses.dataclass(frozen=True)
class Given:
    """An input: dtype and lengths, () for a number; None is a length that changes with calls."""

    kind: str  # of the dtype in NumPy; SINGLE for float32
    lengths: tuple[int | None, ...]
    differentiated: bool


@dataclasses.dataclass(frozen=True)
class Instance:
    """An instance among the arguments: its class, and the attributes that are known."""

    kind: type
    attributes: dict[str, Any]


@dataclasses.dataclass
class Reading:
    """The result of reading: the graph, its result's form, and what it read outside.

    A call is like this one if the dependencies are unchanged. `hidden` are arrays from outside:
    further inputs.
    """

    graph: Graph
    result: Form
    dependencies: list[Checked]
    hidden: list[np.ndarray]


def read(
    f: Callable,
    trees: list,
    names: list[str],
    inputs: Sequence[Given] = (),
    choices: dict[Any, Form | None] | None = None,
) -> Reading:
    """Read `f` for arguments: trees of `Given`, `Known` and containers; the last ones are named.

    The inputs of the graph are in the order of the arguments, if `inputs` does not give another.
    `choices` are lists that lie in the arena, as an earlier reading has found; those that this one
    finds are added. Raises Refused if there is no graph.
    """
    if not isinstance(f, types.FunctionType):
        raise Refused(f"it is of type {type(f).__name__}")
    choices = {} if choices is None else choices
    single = any(one.kind == SINGLE for one in inputs)
    followed = 0
    for _ in range(_TIMES):
        reader = Opened(Graph(), choices, followed, single)
        try:
            return _read(reader, f, trees, names, inputs)
        except Again as again:
            _choose(choices, again)
        except Leaves as error:
            raise Refused(str(error)) from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # a mistake here must cost the graph, not the call
            raise Refused(f"reading failed with {type(error).__name__}: {error}") from error
        followed = reader.followed
    raise Refused("its lists hold items of kinds that do not fit")


def _choose(choices: dict, again: Again) -> None:
    """Put lists into the arena, with elements that fit all forms seen of them."""
    before = len(choices), [_shape(choices.get(site)) for site in again.sites]
    for site in again.sites:
        choices[site] = element_joined(choices.get(site), again.element, _same)
    if before == (len(choices), [_shape(choices[site]) for site in again.sites]):
        raise Refused(again.why)


def _shape(element: Form | None) -> tuple | None:
    return None if element is None else shape_of(element)


def _same(a: int, b: int) -> None:
    """Regions of an earlier reading are forgotten."""


def _read(reader: Opened, f, trees: list, names: list[str], inputs: Sequence[Given]) -> Reading:
    reader.run(lambda: _start(reader, f, trees, names, inputs))
    validate(reader.graph)
    hidden = list(reader.hidden.values())
    return Reading(reader.graph, reader.result, reader.dependencies, hidden)


class Opened(Reader):
    """A reader, and the values that a function reads outside of its arguments."""

    def __init__(self, graph: Graph, choices: dict[Any, Form | None], followed: int, single: bool):
        super().__init__(graph, choices, follow, followed, single)
        self._float = SINGLE if single else FLOAT
        self._hidden_forms: dict[int, Form] = {}

    def outside(self, value) -> Form:
        """An object from outside of the function as a form."""
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, (np.float64, np.int64)) and not self.builder.single:
            return Known(value.item())
        if isinstance(value, np.float32) and self.builder.single:
            return Number(SINGLE, self.builder.constant(float(value)), True)
        if isinstance(value, tuple):
            return Tuple(tuple(map(self.outside, value)))
        if isinstance(value, (np.generic,)):
            raise Refused(f"it reads a number of dtype {value.dtype} from outside")
        if isinstance(value, (list, dict, set)):
            raise Refused("it reads a list or dict from outside; pass it as an argument")
        return Known(value)

    def outside_attribute(self, owner, name: str) -> Form:
        """`owner.name` of an object from outside."""
        fixed = (types.ModuleType, type, str, int, float)
        if not isinstance(owner, fixed):
            raise Refused(f"it reads the attribute {name} of an object from outside")
        try:
            value = getattr(owner, name)
        except AttributeError as error:
            raise Raises(f"AttributeError: {error}") from None
        if isinstance(owner, (types.ModuleType, type)) and not owner.__name__.startswith(
            ("numpy", "math", "tapegrad", "scipy")
        ):
            holds = owner if isinstance(owner, types.ModuleType) else vars(owner)
            self.dependencies.append(Dependency(holds, name, value))
        return self.outside(value)

    def _array(self, value: np.ndarray) -> Form:
        dtype = np.dtype(np.float32 if self.builder.single else np.float64)
        if value.dtype != dtype or not value.flags.c_contiguous:
            raise Refused(f"it reads an array from outside that is not {dtype} in C order")
        if id(value) not in self.hidden:
            self.hidden[id(value)] = value
            given = Given(self._float, value.shape, False)
            self._hidden_forms[id(value)] = entered(self, given, writable=False)
        return self._hidden_forms[id(value)]


def _start(reader: Opened, f, trees: list, names: list[str], inputs: Sequence[Given]):
    """The inputs as forms, and the edge to the function's first statement."""
    given = {id(one): entered(reader, one) for one in inputs}
    forms = [_form(reader, tree, ("argument", k), given) for k, tree in enumerate(trees)]

    code = f.__code__
    reader.dependencies += own_dependencies(f)
    defaults = [reader.outside(one) for one in f.__defaults__ or ()]
    keywords = {k: reader.outside(v) for k, v in (f.__kwdefaults__ or {}).items()}
    count = len(forms) - len(names)
    named = dict(zip(names, forms[count:], strict=True))
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    frame = Frame("f", code_of(code), f.__globals__, cells)
    arguments = bound_arguments(reader, frame, forms[:count], named, defaults, keywords)
    if code.co_flags & 0x20:
        raise Refused("it is a generator")
    reader.frames["f"] = frame
    for name, form in arguments.items():
        reader.state.variables["f", name] = form
    return reader.goto(Stack("f"), frame.code.first, 0, reader.state)


def _form(reader: Opened, tree, place: tuple, given: dict[int, Form]) -> Form:
    """An argument as a form; `given` has those of inputs that are in order."""

    def forms(items) -> tuple[Form, ...]:
        return tuple([_form(reader, one, (*place, k), given) for k, one in enumerate(items)])

    if isinstance(tree, Given):
        return given.get(id(tree)) or entered(reader, tree)
    if isinstance(tree, Known):
        return tree
    if isinstance(tree, tuple):
        if type(tree) is not tuple:
            raise Refused("an argument is a namedtuple")
        return Tuple(forms(tree), place)
    if isinstance(tree, list):
        return new_list(reader, place, forms(tree))
    if isinstance(tree, dict):
        return reader.make(place, "dict", tuple(tree), forms(tree.values()))
    names = fields_of(tree)
    if not isinstance(tree, Instance) and names is not None:
        fields = {name: getattr(tree, name) for name in names}
        fields = {k: Known(one) if is_fixed(one) else one for k, one in fields.items()}
        tree = Instance(type(tree), fields)
    if not isinstance(tree, Instance) or not _has_plain_attributes(tree.kind):
        raise Refused(f"an argument is of type {getattr(tree, 'kind', type(tree)).__name__}")
    keys = tree.kind, tuple(tree.attributes)
    return reader.make(place, "instance", keys, forms(tree.attributes.values()))


def _has_plain_attributes(kind: type) -> bool:
    """Whether an attribute of an instance is its own, or one of its class."""
    return kind.__getattribute__ is object.__getattribute__ and not hasattr(kind, "__getattr__")


def entered(reader: Reader, given: Given, writable: bool = True) -> Form:
    """An input as a form, its numbers parameters of the first block."""
    graph, entry = reader.graph, reader.graph.blocks[0]
    if not given.lengths and given.kind in FLOATS:
        value = graph.value(FLOAT)
        entry.parameters.append(value)
        graph.inputs.append(Input(None, given.differentiated))
        return Number(given.kind, value, given.differentiated or given.kind == SINGLE)
    if not given.lengths:
        raise Refused("an argument is a NumPy number that is not a float")
    region = reader.region(FLOAT)
    graph.inputs.append(Input(len(given.lengths), given.differentiated, region))
    values = [graph.value(INT) for _ in range(1 + len(given.lengths))]
    entry.parameters.extend(values)
    lengths: tuple[Form, ...] = tuple(
        [
            Number(INT, value, natural=True) if length is None else Known(length)
            for value, length in zip(values[1:], given.lengths, strict=True)
        ]
    )
    block, reader.builder.block = reader.builder.block, entry
    strides = strides_of(reader, lengths)
    reader.builder.block = block
    element = {FLOAT: FLOAT, SINGLE: SINGLE, "i": INT, "u": INT, "b": "b"}[given.kind]
    return Array(
        number(values[0]),
        lengths,
        strides,
        region,
        element,
        element not in FLOATS,
        writable and given.differentiated,
    )
