"""Replacements of Python's built-in functions."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from ..._core.config import config
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import access, arena_lists, array_arithmetic, container_operators, iterators, prelude, views
from .errors import Raises, Refused
from .forms import (
    NONE,
    Array,
    Form,
    Known,
    Method,
    Number,
    Range,
    Row,
    Tuple,
    described,
)
from .numbers import (
    applied,
    arithmetic,
    compared,
    converted,
    float_value,
    folded,
    is_float,
    is_strong,
    is_tensor,
    kind_of,
    number,
    refuse_mixed,
    refuse_narrow,
    settled,
    truth,
)
from .reader import Inline


def _follow(function: Callable):
    def handler(s, *args, **kwargs):
        return s.inline(Known(function), list(args), kwargs)

    return handler


def iterator(s, form: Form):
    """`iter(form)`."""
    if (made := s.special(form, "__iter__")) is not None:
        return made
    return iterators.over(s.reader, s.site, settled(s.builder, form))


def _len(s, form):
    if (made := s.special(form, "__len__")) is not None:
        return made
    return access.length(s.reader, form)


def _range(s, first, second=None, step=None):
    start, stop = (Known(0), first) if second is None else (first, second)
    step = step or Known(1)
    for one in (start, stop, step):
        if kind_of(one) not in (INT, BOOL):
            raise Refused(f"a range of {described(one)}")
    if not isinstance(step, Known):
        raise Refused("a range whose step is computed")
    if step.value == 0:
        raise Raises("ValueError: range() arg 3 must not be zero")
    ends = [dataclasses.replace(x, strong=False) if is_strong(x) else x for x in (start, stop)]
    return Range(*ends, step.value)


def _enumerate(s, form, start=None):
    inner = iterators.over(s.reader, (*s.site, 0), form)
    _only_fresh(s, [form], [inner])
    return s.reader.make(s.site, "enumerate", (), (inner, start or Known(0)))


def _zip(s, *args, strict=Known(False)):  # noqa: B008  (it does not change)
    inner = [iterators.over(s.reader, (*s.site, k), one) for k, one in enumerate(args)]
    _only_fresh(s, args, inner)
    if not inner:
        return iterators.over(s.reader, s.site, Tuple(()))
    if not isinstance(strict, Known):
        raise Refused("zip with a strict that is computed")
    return s.reader.make(s.site, "zip", (bool(strict.value),), tuple(inner))


def _only_fresh(s, given, inner) -> None:
    """Refuse iterators that other code advances, and generators."""
    if any(s.reader.contents(one).what == "generator" for one in inner):
        raise Refused("zip or enumerate of a generator")
    old = [form.site for form, one in zip(given, inner, strict=True) if form is one]
    if len({*old}) < len(old) or any(s.reader.is_used_after(site) for site in old):
        raise Refused("zip or enumerate of an iterator that is used elsewhere")


def _reversed(s, form):
    if isinstance(form, Known) and isinstance(form.value, range):
        return iterators.over(s.reader, s.site, Known(form.value[::-1]))
    if isinstance(form, Range):
        if form.step not in (1, -1):
            raise Refused("a range with a step, reversed")
        last = arithmetic(s.builder, operator.sub, form.stop, Known(form.step))
        before = arithmetic(s.builder, operator.sub, form.start, Known(form.step))
        return iterators.over(s.reader, s.site, Range(last, before, -form.step))
    if isinstance(form, Array) and form.lengths:
        last = arithmetic(s.builder, operator.sub, form.lengths[0], Known(1))
        return iterators.over(s.reader, s.site, views.turned(s.reader, form, last))
    if container_operators.is_list(s.reader, form):
        return iterators.backwards(s.reader, s.site, form)
    return iterators.over(s.reader, s.site, Tuple(tuple(access.items_of(s.reader, form)[::-1])))


def _smallest(name: str):
    def handler(s, *args, key=None, default=None):
        if key is not None and key.head != NONE.head:
            follow = [*([Tuple(args)] if len(args) > 1 else args), key]
            if default is not None:
                raise Refused(f"{name} with key and default")
            return s.inline(Known(getattr(prelude, f"{name}_by")), follow, {})
        if default is not None:
            return s.inline(Known(getattr(prelude, f"{name}_or")), [*args, default], {})
        if len(args) == 2:
            return s.inline(Known(getattr(prelude, f"{name}_2")), list(args), {})
        several = Known(getattr(prelude, f"{name}_of"))
        return s.inline(several, [args[0] if len(args) == 1 else Tuple(args)], {})

    return handler


def absolute(s, form):
    """`abs(form)`."""
    form = settled(s.builder, form)
    if isinstance(form, Array):
        return array_arithmetic.mapped(s.reader, lambda x: absolute(s, x), form)
    if isinstance(form, Known):
        return folded(abs, form.value)
    if is_float(form):
        return applied(s.builder, "absolute", form)
    if kind_of(form) != INT:
        raise Refused(f"abs of {described(form)}")
    refuse_narrow(s.builder, form)
    made = s.builder.step("int_absolute", converted(s.builder, form, INT))
    return Number(INT, made, strong=is_strong(form))


def _float(s, form):
    form = settled(s.builder, form)
    if isinstance(form, Known):
        return folded(float, form.value)
    if is_float(form) and is_tensor(form):
        return form if config.enter else s.reader.without_derivative(form)
    return Number(FLOAT, converted(s.builder, form, FLOAT), False)


def _round(s, form, digits=NONE):
    form = settled(s.builder, form)
    if digits.head == NONE.head:
        return _rounded_to_int(s, form)
    if isinstance(form, Known) and isinstance(digits, Known):
        return folded(round, form.value, digits.value)
    if kind_of(form) != FLOAT or not isinstance(digits, Known) or digits.value not in range(12):
        raise Refused(f"round of {described(form)} to {described(digits)} digits")
    refuse_mixed(form)
    return _rounded(s.builder, form, 10.0**digits.value)


def _rounded(build, form: Number, power: float) -> Form:
    """A multiple of 1 / power; the call leaves where rounding of the product could decide."""
    large = applied(build, "multiply", form, Known(power))
    whole = applied(build, "rint", large)
    beyond = applied(build, "absolute", applied(build, "subtract", large, whole))
    for a, b in ((beyond, Known(0.499)), (applied(build, "absolute", large), Known(2.0**40))):
        build.check(compared(build, operator.lt, a, b).value, "a number that is hard to round")  # type: ignore[attr-defined]
    return applied(build, "divide", whole, Known(power))


def _int(s, form):
    form = settled(s.builder, form)
    if isinstance(form, Known):
        return folded(int, form.value)
    if is_float(form):
        return number(s.builder.step("float_to_int", float_value(s.builder, form)))
    return number(converted(s.builder, form, INT))


def _bool(s, form=None):
    if form is None:
        return Known(False)
    found = truth(s.builder, container_operators.truth_of(s.reader, form))
    return dataclasses.replace(found, strong=False) if is_strong(found) else found


def rounded_to_int(op: str, plain: Callable):
    """A function of a number that gives an int."""

    def handler(s, form):
        form = settled(s.builder, form)
        if isinstance(form, Known):
            return folded(plain, form.value)
        if not is_float(form):
            return number(converted(s.builder, form, INT))
        made = applied(s.builder, op, form)
        return number(s.builder.step("float_to_int", float_value(s.builder, made)))

    return handler


_rounded_to_int = rounded_to_int("rint", round)


def _list(s, form=None):
    if form is None:
        return access.new_list(s.reader, s.site, ())
    if isinstance(form, Row):
        return arena_lists.copied(s.reader, s.site, arena_lists.whole(s.reader, form))
    return s.inline(Known(prelude.list), [form], {})


def _tuple(s, form=None):
    return Tuple(() if form is None else tuple(access.items_of(s.reader, form)), s.site)


def _dict(s, **kwargs):
    return s.reader.make(s.site, "dict", tuple(kwargs), tuple(kwargs.values()))


def _slice(s, first, second=None, step=None):
    start, stop = (NONE, first) if second is None else (first, second)
    step = step or NONE
    if all(isinstance(one, Known) for one in (start, stop, step)):
        return folded(slice, start.value, stop.value, step.value)
    return Method(Tuple((start, stop, step)), "slice")


def _isinstance(s, form, kinds):
    if isinstance(form, Known) and isinstance(kinds, Known) and not form.of_numpy:
        return folded(isinstance, form.value, kinds.value)
    raise Refused("isinstance of a value that is computed")


def _getattr(s, owner, name, default=None):
    if not (isinstance(name, Known) and isinstance(name.value, str)):
        raise Refused(f"getattr of the name {described(name)}")
    try:
        return s.attribute(owner, name.value)
    except Raises as error:
        if default is None or "AttributeError" not in str(error):
            raise
        if not isinstance(owner, Known) or isinstance(owner.value, type):
            raise Refused(
                "getattr with a default of an object that it makes, or of a class"
            ) from None
        s.reader.absent(owner.value, name.value)
        return default


def _hasattr(s, owner, name):
    absent = Known(None)
    found = _getattr(s, owner, name, absent)
    if isinstance(found, Inline):
        raise Refused("hasattr of a property")
    return Known(found is not absent)


BUILTINS: dict[Any, Callable] = {
    len: _len,
    range: _range,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    min: _smallest("min"),
    max: _smallest("max"),
    sum: _follow(prelude.sum),
    any: _follow(prelude.any),
    all: _follow(prelude.all),
    map: _follow(prelude.map),
    abs: absolute,
    float: _float,
    int: _int,
    bool: _bool,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    slice: _slice,
    isinstance: _isinstance,
    getattr: _getattr,
    hasattr: _hasattr,
    iter: iterator,
    round: _round,
}
