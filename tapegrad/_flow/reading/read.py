"""A function read into a graph, for arguments of given forms."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.tensor.dependencies import Checked, each_once
from ..._core.tensor.pytree import fields_of, is_fixed
from ..._core.tensor.reachable import own_code
from ..ir.flow_graph import Graph
from ..ir.validation import validate
from .access import new_list
from .change_record import Changes
from .code import code_of
from .entered_inputs import Given, entered
from .errors import Again, Leaves, Outdated, Refused
from .forms import SINGLE, Form, Known, Tuple, shape_of
from .joins import element_joined
from .namedtuples import is_plain_namedtuple
from .names_outside import bound_arguments, defaults_of
from .outside_values import Opened
from .state import Frame, Stack
from .statements import follow

#: The number of times that reading restarts.
_TIMES = 40


@dataclasses.dataclass(frozen=True)
class Instance:
    """An instance among the arguments: its class, and the attributes that are known."""

    kind: type
    attributes: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Outside:
    """An object from outside among the arguments, such as one that a functools.partial holds."""

    value: Any


@dataclasses.dataclass
class Shared:
    """What readings of one code for other data share: evaluators of the graph, by their kind.

    `is_first` says that the graph was made before a program of a recording.
    """

    evaluators: dict[bool, Any] = dataclasses.field(default_factory=dict)
    is_first: bool = False


@dataclasses.dataclass
class Reading:
    """The result of reading: the graph, its result's form, and what it read outside.

    A call is like this one if the dependencies are unchanged. `hidden` are arrays from outside:
    further inputs, of which `given` lie there as they are. `changes` are what the function changes
    there, which the graph does not. `is_of_objects` says that it is of these very objects, whose
    identity or missing attributes are asked for.
    """

    graph: Graph
    result: Form
    dependencies: list[Checked]
    hidden: list[np.ndarray]
    changes: Changes = dataclasses.field(default_factory=Changes)
    given: Sequence[np.ndarray] = ()
    is_of_objects: bool = False
    shared: Shared = dataclasses.field(default_factory=Shared)


def read(
    f: Callable,
    trees: list,
    names: list[str],
    inputs: Sequence[Given] = (),
    choices: dict[Any, Form | None] | None = None,
) -> Reading:
    """Read `f` for arguments: trees of `Given`, `Known`, `Outside` and containers.

    The last ones are named. The inputs of the graph are in the order of the arguments, if `inputs`
    does not give another. `choices` are lists that lie in the arena, as an earlier reading has
    found; those that this one finds are added. Raises Refused if there is no graph.
    """
    if not isinstance(f, types.FunctionType):
        raise Refused(f"it is of type {type(f).__name__}")
    choices = {} if choices is None else choices
    single = any(one.kind == SINGLE for one in inputs)
    followed, changes = 0, Changes()
    for _ in range(_TIMES):
        reader = Opened(Graph(), choices, follow, followed, single)
        reader.changes = changes
        changes.begin()
        try:
            found = _read(reader, f, trees, names, inputs)
            if not changes.is_outdated:
                return found
        except Again as again:
            _choose(choices, again)
        except Outdated:
            pass
        except Refused as error:
            if not changes.is_outdated:
                if not (reader.is_of_objects or changes.refused):
                    error.dependencies = each_once(reader.dependencies)
                raise
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
    dependencies = each_once(reader.dependencies)
    found = reader.graph, reader.result, dependencies, reader.hidden, reader.changes
    return Reading(*found, reader.arrays, reader.is_of_objects)


def _start(reader: Opened, f, trees: list, names: list[str], inputs: Sequence[Given]):
    """The inputs as forms, and the edge to the function's first statement."""
    given = {id(one): entered(reader, one) for one in inputs}
    forms = [_form(reader, tree, ("argument", k), given) for k, tree in enumerate(trees)]

    code = own_code(f)
    defaults, keywords = defaults_of(reader, f)
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
    if isinstance(tree, Outside):
        return reader.outside(tree.value)
    if isinstance(tree, tuple):
        if type(tree) is not tuple and not is_plain_namedtuple(type(tree)):
            raise Refused(f"an argument is of type {type(tree).__name__}")
        return Tuple(forms(tree), place, getattr(tree, "_fields", ()))
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
