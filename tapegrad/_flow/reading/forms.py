"""Forms: facts about values of the user's function while its bytecode is read; errors."""

from __future__ import annotations

import dataclasses
import itertools
import types
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeGuard

from ..ir.flow_graph import SourceLine, Value
from ..kinds.step_kinds import BOOL, FLOAT, INT

# --- Exceptions that end the reading of a function, or restart it ---------------------------------


class Refused(Exception):
    """A function has no graph, for this reason, found at a line if it is known."""

    line: SourceLine | None = None
    dependencies: list | None = None  # what was read before, if reading can be repeated
    #: The branch at which calls take one path each, once that is known, shared by equal refusals.
    paths: list[str] | None = None

    def __str__(self) -> str:
        return super().__str__() + (f" ({self.line})" if self.line else "")


class Unread(Refused):
    """Functions are not read here at all."""


class Lost(Refused):
    """A derivative would be lost, whatever the lengths of the arguments are."""


class ReadsChanges(Refused):
    """A result depends on something outside that the function itself changes."""


class Leaves(Exception):
    """A call leaves the graph here, for this reason."""


class Raises(Leaves):
    """Python raises here: the call leaves the graph."""

    def __str__(self) -> str:
        return f"the function raises {super().__str__()}"


class Again(Exception):
    """Reading must restart: lists made at these sites lie in the arena.

    `element` is the form of their elements, None if that is not known yet; `why` is the reason to
    refuse if they lie there already, or are no lists.
    """

    def __init__(self, sites, element, why="its lists hold items of kinds that do not fit"):
        super().__init__(why)
        self.sites, self.element, self.why = sites, element, why


class Outdated(Exception):
    """Something was read as a value that the function is found to change: it is read once more."""


# --- Forms: facts about values of the user's function while its bytecode is read ------------------
# A form has a `head`, which two forms share if they differ in numbers alone, and `parts`, forms in
# turn. The leaves are objects that are known (`Known`) and numbers that a call computes (`Number`).
# Where branches join, forms are merged part by part.


_KIND = {bool: BOOL, int: INT, float: FLOAT}
#: The kind of numbers of float32: in the graph they are floats that are rounded. That of elements
#: that are integers of fewer than 64 bits: as numbers they are `strong`.
SINGLE, NARROW = "s", "n"
FLOATS = (FLOAT, SINGLE)  # kinds of numbers that have derivatives


def value_kind(kind: str) -> str:
    """The kind that a number of the user's function has in the graph."""
    return {SINGLE: FLOAT, NARROW: INT}.get(kind, kind)


def given_as(site) -> str | None:
    """What an object of a site is, if the graph must not change it; else None."""
    return {"argument": "that is an argument", "outside": "from outside"}.get(site[0])


def _values(names: list[str], *first: str) -> property:
    """The values of fields, and the items of those with a star."""
    items = [name.replace("*", "*self.") if name[0] == "*" else f"self.{name}" for name in names]
    return property(eval(f"lambda self: ({', '.join([*first, *items])},)"))


class Form:
    """The knowledge of a value.

    A class names the fields that are its parts, with a star those that are tuples of parts, and
    fields that are in its head.
    """

    _parts: ClassVar[list[str]] = []

    def __init_subclass__(cls, parts: str = "", head: str = "") -> None:
        cls._parts = parts.split()
        if parts:
            cls.parts = _values(cls._parts)  # type: ignore[assignment]
        if head:
            cls.head = _values(head.split(), "type(self)")  # type: ignore[assignment]

    @property
    def head(self) -> tuple:
        """Equal for forms that differ in numbers alone."""
        return (type(self),)

    @property
    def parts(self) -> tuple[Form, ...]:
        return ()

    def with_parts(self, parts: tuple[Form, ...]) -> Any:
        """The form with other parts."""
        rest, given = iter(parts), dict[str, Any]()
        for name in self._parts:
            if name[0] == "*":
                given[name[1:]] = tuple(itertools.islice(rest, len(getattr(self, name[1:]))))
            else:
                given[name] = next(rest)
        form: Any = self
        return dataclasses.replace(form, **given) if given else self


@dataclasses.dataclass(frozen=True, eq=False)
class Known(Form):
    """An object that is the same in each call; of a number of NumPy's it is Python's."""

    value: Any
    of_numpy: bool = False

    @property
    def head(self) -> tuple:
        value = self.value
        if isinstance(value, (bool, int, float, str, bytes, complex)):
            return Known, type(value), repr(value), self.of_numpy
        return Known, id(value)

    @property
    def kind(self) -> str | None:
        """That of a number."""
        return _KIND.get(type(self.value))


@dataclasses.dataclass(frozen=True, eq=False)
class Number(Form):
    """A number that a call computes. `value` is None in what blocks take.

    `tensor` says of a float that it is a tensor or a NumPy number when the function runs eagerly:
    then dividing it by 0 raises no error. `natural` says of an int that it is not negative. `mixed`
    says of a float that Python's number is an int, of at most 53 bits, after some branch. `strong`
    says of an int or a truth, where arrays are of float32, that it may be one of NumPy's, which
    make float64 of floats; elsewhere that it may be an int of fewer than 64 bits, whose sums and
    products NumPy cuts off.
    """

    kind: str
    value: Value | None
    tensor: bool = False
    natural: bool = False
    mixed: bool = False
    strong: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Maybe(Form, parts="there form"):
    """None, or something: `there` is a truth."""

    there: Form
    form: Form


@dataclasses.dataclass(frozen=True, eq=False)
class Possible(Form, parts="there form"):
    """A value that may be missing: a variable that is not set or a key that is absent.

    `there` is a truth.
    """

    there: Form
    form: Form


@dataclasses.dataclass(frozen=True, eq=False)
class Choice(Form, parts="index"):
    """One of a few things without numbers: `index` is its place in `options`.

    Statements that need one option are followed for each of them: see `alternatives`.
    """

    index: Form
    options: tuple[Form, ...]

    @property
    def head(self) -> tuple:
        return Choice, tuple(map(shape_of, self.options))


@dataclasses.dataclass(frozen=True, eq=False)
class Tuple(Form, parts="*items"):
    """A tuple; `site` is where it was made, `names` are those of the fields of a namedtuple."""

    items: tuple[Form, ...]
    site: Any = None
    names: tuple[str, ...] = ()

    @property
    def head(self) -> tuple:
        return Tuple, len(self.items), self.names


@dataclasses.dataclass(frozen=True, eq=False)
class Range(Form, parts="start stop", head="step"):
    """A range: unlike an iterator it can be iterated again."""

    start: Form
    stop: Form
    step: int


@dataclasses.dataclass(frozen=True, eq=False)
class Ref(Form, head="site"):
    """An object with an identity: its contents are in the heap, under the site that made it.

    `what` is that of the contents.
    """

    site: Any
    what: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Array(Form, parts="address *lengths *strides"):
    """An array in the arena: its address, lengths, and strides in words.

    `element` is the kind of its elements; integers and truths of inputs lie there as doubles
    (`as_doubles`). One that NumPy itself made is `plain`: it takes no tensors.
    """

    address: Form
    lengths: tuple[Form, ...]
    strides: tuple[Form, ...]
    region: int
    element: str = FLOAT
    as_doubles: bool = False
    writable: bool = True
    plain: bool = False

    @property
    def head(self) -> tuple:
        kind = self.element, self.as_doubles, self.writable, self.plain
        return Array, len(self.lengths), *kind


@dataclasses.dataclass(frozen=True, eq=False)
class ArenaList(Form, parts="handle"):
    """A Python list in the arena: `handle` is the address of its length, capacity and data.

    Elements have the form `element`, with a word for each of its numbers. One of `sites` made it.
    """

    handle: Form
    element: Form
    sites: frozenset = frozenset()

    @property
    def is_given(self) -> bool:
        """Whether it may be an argument, which the graph must not change."""
        return any(given_as(site) for site in self.sites)

    @property
    def head(self) -> tuple:
        return ArenaList, shape_of(self.element), self.is_given


@dataclasses.dataclass(frozen=True, eq=False)
class LocalFunction(Form, parts="*defaults"):
    """A function that the code itself makes: its variables from outside lie in a frame."""

    code: types.CodeType
    frame: Any
    globals: dict
    defaults: tuple[Form, ...]
    name: str

    @property
    def head(self) -> tuple:
        return LocalFunction, id(self.code), self.frame


@dataclasses.dataclass(frozen=True, eq=False)
class Method(Form, parts="owner", head="name"):
    """A method of a form, by name."""

    owner: Form
    name: str


@dataclasses.dataclass(frozen=True, eq=False)
class NextItem(Form, parts="item", head="there"):
    """The next item of an iterator, and whether there was one."""

    item: Form
    there: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Contents(Form, parts="*items"):
    """Contents of an object with an identity: a list, a dict, an instance, an iterator.

    `what` distinguishes these; `keys` are those of a dict, names of attributes, or other constants.
    """

    what: Any
    keys: tuple
    items: tuple[Form, ...]

    @property
    def head(self) -> tuple:
        return Contents, self.what, len(self.items), self.keys


class _Nothing:
    """Represents a missing value."""


#: The form of the items of a list that is always empty, and of what is missing after a branch.
NOTHING, ABSENT, NONE = Known(_Nothing()), Known(_Nothing()), Known(None)


def are_known(forms: Sequence[Form]) -> TypeGuard[Sequence[Known]]:
    return all([isinstance(one, Known) for one in forms])


def shape_of(form: Form) -> tuple:
    """Head and those of the parts, with kinds of numbers."""
    if isinstance(form, Number):
        return Number, form.kind, form.strong, form.mixed
    if isinstance(form, Known):
        return form.head
    found = form.__dict__.get("shape")
    if found is None:
        found = form.head, *[shape_of(part) for part in form.parts]
        form.__dict__["shape"] = found
    return found


def numbers(form: Form) -> Iterator[Number]:
    """The numbers in a form, in order."""
    if isinstance(form, Number):
        yield form
    for part in form.parts:
        yield from numbers(part)


def kinds_of(form: Form) -> tuple[str, ...]:
    """Kinds that the numbers in a form have in the graph, in order."""
    if isinstance(form, Number):
        return (value_kind(form.kind),)
    found = form.__dict__.get("kinds")
    if found is None:
        found = tuple([value_kind(one.kind) for one in numbers(form)])
        form.__dict__["kinds"] = found
    return found


def unbound(form: Form) -> Form:
    """The form as a block takes it: numbers without values.

    It is kept with the form, so that what a block only passes on is known by identity.
    """
    found = form.__dict__.get("unbound", form)
    if found is form:
        found = form.__dict__["unbound"] = _unbound(form)
    return form if found is None else found


def _unbound(form: Form) -> Form | None:
    """The form without values for its numbers; None if it has none of these."""
    if isinstance(form, Number):
        if form.value is None:
            return None
        return Number(form.kind, None, form.tensor, form.natural, form.mixed, form.strong)
    parts = form.parts
    made = tuple([unbound(part) for part in parts])
    if all([p is q for p, q in zip(parts, made, strict=True)]):
        return None
    return form.with_parts(made)


def bound(form: Form, values: Iterator[Value]) -> Form:
    """The form with values for its numbers, in order."""
    made: Form
    if isinstance(form, Number):
        flags = form.tensor, form.natural, form.mixed, form.strong
        made = Number(form.kind, next(values), *flags)
    elif kinds_of(form):
        made = form.with_parts(tuple([bound(part, values) for part in form.parts]))
    else:
        return form
    made.__dict__["unbound"] = unbound(form)
    return made


def leads(form: Form) -> bool:
    """Whether objects or frames may be reached through a form."""
    if isinstance(form, (Number, Known)):
        return False
    if isinstance(form, (Ref, ArenaList, LocalFunction, Choice)):
        return True
    found = form.__dict__.get("leads")
    if found is None:
        found = form.__dict__["leads"] = any([leads(part) for part in form.parts])
    return found


def is_natural(form: Form) -> bool:
    """Whether a number is known to be an integer that is not negative."""
    if isinstance(form, Known):
        return type(form.value) is int and form.value >= 0
    return isinstance(form, Number) and form.natural


def described(form: Form) -> str:
    """A form in words, for messages."""
    if isinstance(form, Known):
        text = repr(form.value)
        return text if len(text) <= 60 else f"a {type(form.value).__name__}"
    if isinstance(form, Number):
        names = {FLOAT: "a float", SINGLE: "a float32", INT: "an int", BOOL: "a bool"}
        return names[form.kind]
    if isinstance(form, Array):
        return f"an array of {len(form.lengths)} dimensions"
    if isinstance(form, Tuple):
        return f"a tuple of {len(form.items)}"
    if isinstance(form, ArenaList):
        return "a list of " + described(form.element)
    if isinstance(form, Ref):
        return "an object made there"
    if isinstance(form, Choice):
        return " or ".join(map(described, form.options))
    return getattr(form, "words", f"a {type(form).__name__.lower()}")


# --------------------------------------------------------------------------------------------------
# Values that a graph does not compute, since no result depends on them, as those of counters.


@dataclasses.dataclass(frozen=True, eq=False)
class Unfollowed(Form, head="plain changed"):
    """A value that the graph does not compute: no result may depend on it. `words` describe it.

    One that is `plain` is a number, a string or None: nothing can be written to it. `changed` says
    that the function itself changes it: if a result depends on it, no program of it is right.
    """

    words: str
    plain: bool = False
    changed: bool = False

    def united(self, other: Form) -> Form:
        """The form of a value that is this or another one."""
        plain = self.plain and is_plain(other)
        changed = self.changed or (isinstance(other, Unfollowed) and other.changed)
        if (plain, changed) == (self.plain, self.changed):
            return self
        return dataclasses.replace(self, plain=plain, changed=changed)


def is_plain(form: Form) -> bool:
    """Whether a value is a number, a string or None: nothing can be written to it."""
    if isinstance(form, Known):
        return form.value is None or isinstance(form.value, (bool, int, float, str))
    return isinstance(form, Number) or (isinstance(form, Unfollowed) and form.plain)


def dependence(what: str, form: Unfollowed) -> Refused:
    """The error where something depends on a value that the graph does not compute."""
    return (ReadsChanges if form.changed else Refused)(f"{what} depends on {form.words}")
