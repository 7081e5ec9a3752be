"""Iterators: whether there is a next item, and which."""

from __future__ import annotations

import operator

from ..ir.graph import BOOL
from . import access
from .errors import Refused
from .forms import Contents, Form, Known, Ref, Tuple, described, is_natural
from .numbers import arithmetic, compared, converted, number


def new_range(reader, site, start: Form, stop: Form, step: Form) -> Ref:
    """An iterator over a range; its items are position, end and step."""
    if not isinstance(step, Known):
        raise Refused("a range whose step is computed")
    return reader.make(site, "range", (step.value,), (start, stop))


def over(reader, site, form: Form) -> Ref:
    """An iterator over a sequence whose items are known one by one, or over one in the arena."""
    if isinstance(form, Ref):
        contents = reader.contents(form)
        if contents.what in ("range", "sequence", "elements", "zip", "enumerate", "generator"):
            return form
        if contents.what == "dict":
            form = Tuple(tuple(map(Known, contents.keys)))
        elif contents.what == "list":
            return reader.make(site, "sequence", (0,), (form,))
        else:
            raise Refused(f"iteration over {described(form)}")
    if isinstance(form, Known) and isinstance(form.value, (tuple, str)):
        form = Tuple(tuple(map(Known, form.value)))
    if isinstance(form, Known) and isinstance(form.value, range):
        r = form.value
        return new_range(reader, site, Known(r.start), Known(r.stop), Known(r.step))
    if isinstance(form, Tuple):
        return reader.make(site, "sequence", (0,), (form,))
    return reader.make(site, "elements", (), (form, Known(0)))


def has_next(reader, iterator: Ref) -> Form:
    """Whether there is a next item, a truth."""
    contents = reader.contents(iterator)
    build = reader.builder
    if contents.what == "range":
        op = operator.lt if contents.keys[0] > 0 else operator.gt
        return compared(build, op, *contents.items)
    if contents.what == "sequence":
        return Known(contents.keys[0] < len(access.items_of(reader, contents.items[0])))
    if contents.what == "elements":
        return compared(build, operator.lt, contents.items[1], access.length(reader, contents.items[0]))
    if contents.what == "enumerate":
        return has_next(reader, contents.items[0])  # type: ignore[arg-type]
    if contents.what == "zip":
        found = [has_next(reader, one) for one in contents.items]  # type: ignore[arg-type]
        return _all(reader, found)
    raise Refused(f"iteration over {contents.what}")


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
    """The next item, which there is; the iterator goes on."""
    contents = reader.contents(iterator)
    if contents.what == "range":
        position, stop = contents.items
        after = arithmetic(reader.builder, operator.add, position, Known(contents.keys[0]))
        if is_natural(position) and contents.keys[0] > 0:
            after = access.natural(after)
        reader.update(iterator, contents.keys, (after, stop))
        return position
    if contents.what == "sequence":
        at = contents.keys[0]
        reader.update(iterator, (at + 1,), contents.items)
        return access.items_of(reader, contents.items[0])[at]
    if contents.what == "elements":
        form, position = contents.items
        item = access.element(reader, form, position)
        after = access.natural(arithmetic(reader.builder, operator.add, position, Known(1)))
        reader.update(iterator, (), (form, after))
        return item
    if contents.what == "enumerate":
        inner, count = contents.items
        after = arithmetic(reader.builder, operator.add, count, Known(1))
        if is_natural(count):
            after = access.natural(after)
        item = advanced(reader, inner)  # type: ignore[arg-type]
        reader.update(iterator, (), (inner, after))
        return Tuple((count, item))
    if contents.what == "zip":
        return Tuple(tuple([advanced(reader, one) for one in contents.items]))  # type: ignore[arg-type]
    raise Refused(f"iteration over {contents.what}")


__all__ = ["Contents", "advanced", "has_next", "new_range", "over"]
