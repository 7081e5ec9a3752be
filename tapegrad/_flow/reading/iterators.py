"""Iterators: whether there is a next item, and which."""

from __future__ import annotations

import operator

from ..kinds.step_kinds import BOOL
from . import access, dicts, outside_changes
from .errors import Raises, Refused
from .forms import Array, Form, Known, Method, Range, Ref, Row, Tuple, described, is_natural
from .numbers import arithmetic, compared, converted, number
from .positions import natural
from .unfollowed import dependence

#: Lists of numbers from outside with more items are gone through in a loop.
FEW = 8
_ITERATORS = frozenset("range sequence elements backwards zip enumerate generator".split())


def backwards(reader, site, form: Form) -> Ref:
    """An iterator over a list from its end."""
    if (row := reader.laid_out(form, FEW)) is not None:
        form = row
    if isinstance(form, Row):
        return reader.make(site, "backwards", (), (form, access.length(reader, form)))
    return reader.make(site, "sequence", (0, len(access.items_of(reader, form))), (form,))


def over(reader, site, form: Form) -> Ref:
    """An iterator over a sequence whose items are known one by one, or over one in the arena."""
    if (outside := outside_changes.unfollowed(reader, form)) is not None:
        raise dependence("its result", outside)
    if (row := reader.laid_out(form, FEW)) is not None:
        form = row
    if isinstance(form, Ref):
        contents = reader.contents(form)
        if contents.what in _ITERATORS:
            return form
        if contents.what not in ("list", "set") and not dicts.is_dict(reader, form):
            raise Refused(f"iteration over {described(form)}")
        return reader.make(site, "sequence", (0, None), (form,))
    if isinstance(form, Known) and isinstance(form.value, (tuple, str)):
        form = Tuple(tuple(map(Known, form.value)))
    if isinstance(form, Known) and isinstance(form.value, range):
        r = form.value
        form = Range(Known(r.start), Known(r.stop), r.step)
    if isinstance(form, Range):
        return reader.make(site, "range", (form.step,), (form.start, form.stop))
    if isinstance(form, Tuple) or (isinstance(form, Method) and form.name in access.VIEWS):
        return reader.make(site, "sequence", (0, None), (form,))
    if not isinstance(form, (Array, Row)):
        raise Refused(f"iteration over {described(form)}")
    return reader.make(site, "elements", (), (form, Known(0)))


def has_next(reader, iterator: Ref) -> Form:
    """Whether there is a next item, a truth."""
    contents = reader.contents(iterator)
    build = reader.builder
    if contents.what == "range":
        op = operator.lt if contents.keys[0] > 0 else operator.gt
        return compared(build, op, *contents.items)
    if contents.what == "sequence":
        at, count = contents.keys
        there = len(access.items_of(reader, contents.items[0]))
        if count not in (None, there):
            raise Refused("a list that changes while it is gone through from its end")
        return Known(at < there)
    if contents.what == "elements":
        return compared(
            build, operator.lt, contents.items[1], access.length(reader, contents.items[0])
        )
    if contents.what == "backwards":
        return _has_next_backwards(reader, *contents.items)
    if contents.what == "enumerate":
        return has_next(reader, contents.items[0])
    if contents.what == "zip":
        found = [has_next(reader, one) for one in contents.items]
        (strict,) = contents.keys
        return _alike(reader, found) if strict else _all(reader, found)
    raise Refused(f"iteration over {contents.what}")


def _has_next_backwards(reader, form: Form, count: Form) -> Form:
    """The same for a list from its end, of which `count` items are left."""
    build = reader.builder
    there = compared(build, operator.le, count, access.length(reader, form))
    build.check(converted(build, there, BOOL), "a list that shrinks while it is gone through")
    return compared(build, operator.gt, count, Known(0))


def _alike(reader, found: list[Form]) -> Form:
    """One of truths that are equal, or else the call leaves the graph: Python raises."""
    error = "ValueError: zip() with strict of arguments of other lengths"
    if len({one.value for one in found if isinstance(one, Known)}) > 1:
        raise Raises(error)
    first, *others = sorted(found, key=lambda one: not isinstance(one, Known))
    build = reader.builder
    for one in others:
        if not isinstance(one, Known):
            differ = build.step("bool_xor", *[converted(build, x, BOOL) for x in (first, one)])
            build.check(build.step("bool_not", differ), f"the function raises {error}")
    return first


def _all(reader, found: list[Form]) -> Form:
    if any(isinstance(one, Known) and not one.value for one in found):
        return Known(False)
    left = [converted(reader.builder, one, BOOL) for one in found if not isinstance(one, Known)]
    if not left:
        return Known(True)
    value = left[0]
    for one in left[1:]:
        value = reader.builder.step("bool_and", value, one)
    return number(value)


def advanced(reader, iterator: Ref) -> Form:
    """The next item, which is known to exist; the iterator advances."""
    contents = reader.contents(iterator)
    if contents.what == "range":
        position, stop = contents.items
        after = arithmetic(reader.builder, operator.add, position, Known(contents.keys[0]))
        if is_natural(position) and contents.keys[0] > 0:
            after = natural(after)
        reader.update(iterator, contents.keys, (after, stop))
        return position
    if contents.what == "sequence":
        at, count = contents.keys
        reader.update(iterator, (at + 1, count), contents.items)
        items = access.items_of(reader, contents.items[0])
        return items[at if count is None else count - 1 - at]
    if contents.what == "elements":
        form, position = contents.items
        item = access.element(reader, form, position)
        after = natural(arithmetic(reader.builder, operator.add, position, Known(1)))
        reader.update(iterator, (), (form, after))
        return item
    if contents.what == "backwards":
        form, count = contents.items
        position = natural(arithmetic(reader.builder, operator.sub, count, Known(1)))
        reader.update(iterator, (), (form, position))
        return access.element(reader, form, position)
    if contents.what == "enumerate":
        inner, count = contents.items
        after = arithmetic(reader.builder, operator.add, count, Known(1))
        if is_natural(count):
            after = natural(after)
        item = advanced(reader, inner)
        reader.update(iterator, (), (inner, after))
        return Tuple((count, item))
    if contents.what == "zip":
        return Tuple(tuple([advanced(reader, one) for one in contents.items]))
    raise Refused(f"iteration over {contents.what}")
