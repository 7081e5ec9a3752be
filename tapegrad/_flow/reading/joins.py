"""The join of two forms, where branches join; one form as an instance of another."""

from __future__ import annotations

import dataclasses

from ..ir.flow_graph import Edge, Value
from ..kinds.step_kinds import BOOL, FLOAT, INT
from .forms import (
    ABSENT,
    NONE,
    NOTHING,
    SINGLE,
    Again,
    ArenaList,
    Array,
    Choice,
    Contents,
    Form,
    Known,
    LocalFunction,
    Maybe,
    Method,
    Number,
    Possible,
    Ref,
    Refused,
    Unfollowed,
    bound,
    described,
    is_natural,
    kinds_of,
    numbers,
    shape_of,
    unbound,
)
from .numbers import converted, is_mixed, is_strong, joined_value, kind_of

# --- The join of two forms, where branches join ---------------------------------------------------


#: Kinds of numbers, each a part of the next.
_ORDER = {BOOL: 0, INT: 1, FLOAT: 2, SINGLE: 3}


def joined(a: Form, b: Form, unite) -> Form:
    """The join of two forms, without values; Refused if nothing is known of it.

    `unite(region, region)` is called for memory that may be the one or the other.
    """
    if is_unchanged(a, b):
        return a
    if (made := _of_other_kinds(a, b, unite)) is not None:
        return made
    if isinstance(a, Number) and isinstance(b, Number):
        fits = a.tensor <= b.tensor and a.natural <= b.natural and a.mixed >= b.mixed
        if a.kind == b.kind and fits and a.strong >= b.strong:
            return a
    elif a.head == b.head and not isinstance(a, Number):
        _unite(a, b, unite)
        if not (parts := a.parts):
            return a
        both = zip(parts, b.parts, strict=True)
        united = tuple([joined(p, q, unite) for p, q in both])
        same = all(p is q for p, q in zip(parts, united, strict=True))
        return a if same else a.with_parts(united)
    if _is_list(a) and _is_list(b):
        raise Again(*_in_arena((a, b), unite), f"a variable is {_both(a, b)}")
    if isinstance(a, Array) and isinstance(b, Array) and a.head[:4] == b.head[:4]:
        # writes to it, and of tensors, as either of them takes them
        writable, plain = a.writable and b.writable, a.plain or b.plain
        a, b = [dataclasses.replace(x, writable=writable, plain=plain) for x in (a, b)]
        return joined(a, b, unite)
    if (options := _options(a)) and (others := _options(b)):
        found = {shape_of(one): one for one in (*options, *others)}
        if isinstance(a, Choice) and len(found) == len(options):
            return a
        return Choice(Number(INT, None), tuple(found.values()))
    one, other = kind_of(a), kind_of(b)
    if one is not None and other is not None:
        return _of_numbers(a, b, one, other)
    return _with_none(a, b, unite)


def _of_numbers(a: Form, b: Form, one: str, other: str) -> Number:
    """The join of numbers of two kinds: an int is a `mixed` float where the other is a float."""
    kind = max(one, other, key=_ORDER.__getitem__)
    if kind == SINGLE and one != other:
        raise Refused("a number is float32 on one branch and one of Python's on another")
    if BOOL in (one, other) and one != other:  # x[True] is not x[1]
        raise Refused("a number is a truth on one branch and none on another")
    natural = is_natural(a) and is_natural(b)
    mixed = one != other or is_mixed(a) or is_mixed(b)
    tensor = _tensor(a) and _tensor(b)
    strong = is_strong(a) or is_strong(b)
    return Number(kind, None, tensor, natural and kind == INT, mixed, strong)


def is_unchanged(a: Form, b: Form) -> bool:
    """Whether a block passes on in `b` what it took as `a`."""
    return a is b or unbound(b) is a


def element_joined(a: Form | None, b: Form | None, unite) -> Form | None:
    """The form of items that have either of two forms; None or NOTHING is no form."""
    if a is None or a is NOTHING:
        return b
    if b is None or b is NOTHING:
        return a
    return unbound(joined(a, b, unite))


def _of_other_kinds(a: Form, b: Form, unite) -> Form | None:
    """The join if one of the two may be missing, or is not followed."""
    if isinstance(a, Possible) or isinstance(b, Possible) or ABSENT in (a, b):
        return _possible(a, b, unite)
    if isinstance(a, Unfollowed):
        return a.united(b)
    return b.united(a) if isinstance(b, Unfollowed) else None


def _possible(a: Form, b: Form, unite) -> Form:
    """The join if one of the two may be missing."""
    if a is ABSENT and b is ABSENT:
        return a
    p, q = _if_there(a), _if_there(b)
    made = q if p is ABSENT else p if q is ABSENT else joined(p, q, unite)
    if isinstance(a, Possible) and made is p:
        return a
    return Possible(Number(BOOL, None), unbound(made))


def _if_there(form: Form) -> Form:
    return form.form if isinstance(form, Possible) else form


def aligned(wanted: Form, given: Form) -> tuple[Form, Form]:
    """Contents of a dict or an instance with the keys of both, in the order of `wanted`."""
    if not (isinstance(wanted, Contents) and isinstance(given, Contents)):
        return wanted, given
    is_instance = wanted.what == given.what == "instance" and wanted.keys[0] is given.keys[0]
    if wanted.keys == given.keys and wanted.what == given.what:
        return wanted, given
    if not (is_instance or {wanted.what, given.what} <= {"dict", "unordered dict"}):
        return wanted, given
    what = "instance" if is_instance else "unordered dict"
    own = [one.keys[1] if is_instance else one.keys for one in (wanted, given)]
    names = (*own[0], *[name for name in own[1] if name not in own[0]])
    made = []
    for one, has in zip((wanted, given), own, strict=True):
        if names == has and one.what == what:
            made.append(one)
            continue
        items = dict(zip(has, one.items, strict=True))
        keys = (one.keys[0], names) if is_instance else names
        made.append(Contents(what, keys, tuple([items.get(name, ABSENT) for name in names])))
    return made[0], made[1]


def _is_list(form: Form) -> bool:
    return isinstance(form, ArenaList) or (isinstance(form, Ref) and form.what == "list")


def _options(form: Form) -> tuple[Form, ...]:
    """The options of a form, () for forms that are no options of a choice."""
    if isinstance(form, Choice):
        return form.options
    return (form,) if is_option(form) else ()


def is_option(form: Form) -> bool:
    """Whether a form may be one of a choice: a function, an object, a string, without numbers."""
    if isinstance(form, Known):
        return form.kind is None and form.value is not None
    is_kind = isinstance(form, (LocalFunction, Ref, Method))
    return is_kind and next(numbers(form), None) is None


def _unite(a: Form, b: Form, unite) -> None:
    if isinstance(a, Array) and isinstance(b, Array):
        unite(a.region, b.region)


def _with_none(a: Form, b: Form, unite) -> Form:
    """The join if one of the two is None."""
    if _is_none(a) or _is_none(b):
        form = b if _is_none(a) else a
        if isinstance(form, Maybe):
            return form
        return Maybe(Number(BOOL, None), unbound(_lifted(form)))
    if isinstance(a, Maybe) or isinstance(b, Maybe):
        p = a.form if isinstance(a, Maybe) else a
        q = b.form if isinstance(b, Maybe) else b
        made = joined(p, q, unite)
        if isinstance(a, Maybe) and made is p:
            return a
        return Maybe(Number(BOOL, None), made)
    raise Refused(f"a variable is {_both(a, b)}")


def _both(a: Form, b: Form) -> str:
    return f"{described(a)} on one branch and {described(b)} on another"


def _in_arena(lists: tuple, unite) -> tuple[set, Form | None]:
    """Sites of lists of which a variable is one or another, and the form of their elements."""
    sites: set = set()
    element: Form | None = None
    for one in lists:
        sites.update(one.sites if isinstance(one, ArenaList) else {one.site})
        if isinstance(one, ArenaList):
            element = element_joined(element, one.element, unite)
    return sites, element


def _lifted(form: Form) -> Form:
    """A known number as a computed one."""
    kind = kind_of(form)
    return form if kind is None else Number(kind, None)


def lifted(form: Form) -> Form:
    """The form with computed numbers in place of known ones."""
    if not form.parts:
        return _lifted(form)
    return form.with_parts(tuple([lifted(part) for part in form.parts]))


def _is_none(form: Form) -> bool:
    return isinstance(form, Known) and form.value is None


def _tensor(form: Form) -> bool:
    return isinstance(form, Number) and form.tensor


# --- Values for the numbers of a form, from a form that is an instance of it ----------------------


_ZERO = {FLOAT: 0.0, INT: 0, BOOL: False}


def matched(builder, wanted: Form, given: Form) -> list[Value]:
    """A value for each number of `wanted`, in order; 0 where `given` lacks it."""
    if given is ABSENT and not isinstance(wanted, Possible):
        return [builder.constant(_ZERO[kind]) for kind in kinds_of(wanted)]
    if isinstance(wanted, Unfollowed):
        return []
    if isinstance(wanted, Number):
        return [joined_value(builder, given, wanted.kind)]
    if isinstance(wanted, Choice):
        return [_place(builder, wanted, given)]
    if isinstance(wanted, (Maybe, Possible)) and type(given) is not type(wanted):
        missing = given is ABSENT or (isinstance(wanted, Maybe) and given.head == NONE.head)
        rest = matched(builder, wanted.form, ABSENT if missing else given)
        return [builder.constant(not missing), *rest]
    wanted, given = aligned(wanted, given)
    pairs = zip(wanted.parts, given.parts, strict=True)
    return [value for part, other in pairs for value in matched(builder, part, other)]


def _place(builder, wanted: Choice, given: Form) -> Value:
    """The place among the options of `wanted`."""
    places = {shape_of(option): k for k, option in enumerate(wanted.options)}
    if not isinstance(given, Choice):
        return builder.constant(places[shape_of(given)])
    index = converted(builder, given.index, INT)
    found = [places[shape_of(option)] for option in given.options]
    if found == [*range(len(found))]:
        return index
    value = builder.constant(found[0])
    for k, place in enumerate(found[1:], 1):
        here = builder.step("int_equal", index, builder.constant(k))
        value = builder.step("int_select", here, builder.constant(place), value)
    return value


# --- One of two forms, by a truth -----------------------------------------------------------------


def selected(reader, condition: Value, a: Form, b: Form) -> Form:
    """`a` where the condition holds, else `b`."""
    build = reader.builder
    form = unbound(joined(a, b, reader.unite))
    after = build.begin(*kinds_of(form))
    then, other = build.begin(), build.begin()
    build.branch(condition, Edge(then, []), Edge(other, []))
    for block, given in ((then, a), (other, b)):
        build.block = block
        build.jump(after, *matched(build, form, given))
    build.block = after
    return bound(form, iter(after.parameters))
