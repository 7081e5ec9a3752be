"""Data of many kinds that functions read, and uses of them as text: see random_closures.py."""

import collections
import dataclasses
import functools
import re
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tapegrad as tg
import tapegrad.math as tm
import tapegrad.numpy as tnp
import tapegrad.scipy.special as special


class Settings:
    """An object with numbers, a table, and a method."""

    kind = 2.0

    def __init__(self, rate=0.5, table=(1.0, 2.0)):
        self.rate, self.table = rate, table

    def scale(self, v):
        return self.rate * v


class Other(Settings):
    """One with another method."""

    def scale(self, v):
        return self.table[0] * v


class Slots:
    """One without a dict."""

    __slots__ = ("rate", "table")

    def __init__(self, rate=0.5, table=(1.0, 2.0)):
        self.rate, self.table = rate, table

    def scale(self, v):
        return self.rate * v


class Computed:
    """One whose rate is a property."""

    def __init__(self, rate=0.5, table=(1.0, 2.0)):
        self.own, self.table = rate, table

    @property
    def rate(self):
        return 2.0 * self.own

    @staticmethod
    def scale(v):
        return 0.7 * v


class Missing:
    """One that makes attributes which it does not have."""

    def __init__(self, rate=0.5, table=(1.0, 2.0)):
        self.table = table
        if rate > 0.4:
            self.rate = rate

    def __getattr__(self, name):
        if name == "rate":
            return 0.3
        raise AttributeError(name)

    def scale(self, v):
        return self.rate * v


@dataclasses.dataclass
class Data:
    """A dataclass, with rate in the class for those who delete it."""

    rate: float = 0.25
    table: Any = (1.0, 2.0)

    def scale(self, v):
        return self.rate + v


Named = collections.namedtuple("Named", "rate table")


class Callable1:
    """An object that is called."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, v):
        return self.rate * v


def scaled(rate):
    return lambda v: rate * v


def scaled_by(rates):
    def g(v, shift=rates[-1]):
        return rates[0] * v + shift

    return g


def named_default(rate):
    def g(v, *, shift=rate):
        return v * v + shift

    return g


def composed(first, second):
    return lambda v: first(second(v))


def recursive(times):
    def g(v, n=times):
        return v if n == 0 else 0.5 * g(v, n - 1)

    return g


def _square(v):
    return v * v


def _cube(v):
    return v * v * v


OURS = [tg.elementwise(_square), tg.elementwise(_cube)]

_FLOATS = [0.5, 1.0, 1.0, 2.0, 0.0, -0.0, -1.5, 1e300, float("inf"), float("nan")]
_NUMBERS = [
    *(1, 0, -1, 3, True, False, 2**53 + 1, 10**30, 1.0, 2.5, 0.0, -0.0, float("nan")),
    *(
        1j,
        complex(1.0, -0.0),
        complex(1.0, 0.0),
        "ab",
        "abc",
        "",
        b"ab",
        None,
        (1.0, 2),
        (1.0, 2.0),
    ),
    *(np.float64(1.0), np.float64(-0.0), np.float32(1.0), np.int64(1), np.int64(3), np.int32(1)),
    *(np.bool_(True), np.True_, ..., range(3), slice(1, 2)),
]


def _float(pick) -> float:
    return (
        pick([*_FLOATS[:5], *_FLOATS]) + 0.0 * pick([0.0, -0.0]) if pick([0, 1]) else pick(_FLOATS)
    )


def _number(pick):
    value = pick(_NUMBERS)
    if pick([0, 1]):
        value = pick([1.0, 2.0, 0.5, 1, 2])
    return pick([value, value, float(str(value))]) if type(value) is float else value


def _array(pick):
    count = pick([2, 3, 3, 4, 6])
    made = pick([np.arange(count) + 1.0, np.linspace(-1.0, 2.0, count), np.ones(count)])
    kind = pick(
        [float, float, float, float, int, bool, np.float32, np.int32, np.uint8, ">f8", complex]
    )
    made = made.astype(kind)
    way = pick(["", "", "", "view", "strided", "back", "column", "0d", "big", "nan", "memmap"])
    if way == "view":
        made = np.concatenate([made, made])[: len(made)]
    elif way == "strided":
        made = np.repeat(made, 2)[::2]
    elif way == "back":
        made = made[::-1]
    elif way == "column":
        made = np.asfortranarray(np.stack([made, made]))[0]
    elif way == "0d":
        made = made[0].reshape(())
    elif way == "big" and made.dtype == int:
        made = made + 2**53
    elif way == "nan" and made.dtype.kind == "f":
        made[0] = np.nan
    elif way == "memmap":
        made = made.view(pick([np.ndarray, np.matrix, np.recarray])) if made.ndim == 1 else made
    return made


def _sequence(pick):
    if pick([0, 0, 1]):
        return _array(pick)
    count = pick([1, 2, 3, 3, 3, 3, 0])
    item = pick([lambda: float(pick([1, 2, 3])), lambda: _float(pick), lambda: _number(pick)])
    if pick([0, 0, 0, 0, 1]):
        item = lambda: pick([np.float64(2.0), np.array(2.0), [1.0], 2, True, "a", np.float32(1)])
    items = [item() for _ in range(count)]
    if pick([0] * 9 + [1]):
        items = items * pick([40, 120])
    return (
        pick([list, list, list, tuple, collections.deque, set])(items)
        if _hashable(items)
        else items
    )


def _hashable(items) -> bool:
    try:
        return bool({*items}) or True
    except TypeError:
        return False


def _table(pick):
    return pick(
        [lambda: (1.0, 2.0), lambda: [1.0, 2.0], lambda: [1, 2], lambda: np.array([1.0, 2.0])]
    )()


def _object(pick):
    kind = pick([Settings, Settings, Settings, Other, Slots, Computed, Missing, Data, Named])
    made = kind(pick([0.5, 0.5, 0.25, 1, -0.0, np.float64(0.5)]), _table(pick))
    way = pick(["", "", "", "method", "kind", "namespace", "deleted", "class"])
    if kind in (Settings, Other):
        if way == "method":
            made.scale = scaled(pick([2.0, 3.0]))
        elif way == "kind":
            made.kind = pick([2.0, 3.0])
    if way == "deleted" and kind is Data:
        del made.rate
    if way == "namespace":
        return types.SimpleNamespace(rate=made.rate, table=made.table, scale=scaled(2.0))
    return made


def _function(pick, depth=0):
    number = pick([2.0, 2.0, 3.0, 2, -0.0])
    made = pick(
        [
            *(lambda: scaled(number), lambda: scaled([2.0]) and scaled(number)),
            *(lambda: scaled_by([number, 1.0]), lambda: scaled_by((number, 1.0))),
            *(lambda: scaled_by(np.array([2.0, number])), lambda: named_default(number)),
            *(lambda: recursive(2), lambda: recursive(3), lambda: Callable1(number)),
            lambda: pick([np.sin, np.cos, np.tanh, np.abs, abs, float, np.exp, np.square]),
            lambda: pick([tnp.sin, tnp.cos, tm.sin, tm.cos, tg.exp, tg.sin, special.expit]),
            *(lambda: pick(OURS), lambda: functools.partial(scaled_by([1.0, 2.0]), shift=number)),
            *(lambda: Settings(number).scale, lambda: Other(number, (number, 1.0)).scale),
        ]
    )()
    if depth < 2 and pick([0, 0, 1]):
        return composed(made, _function(pick, depth + 1))
    return made


def _dict(pick):
    keys = pick([["p", "q"], ["p", "q"], ["q", "p"], ["p"], ["p", 1], ["p", True], ["p", (1, 2)]])
    item = pick([lambda: float(pick([1, 2])), lambda: _number(pick), lambda: _table(pick)])
    made = {key: item() for key in keys}
    return pick([dict, dict, dict, collections.OrderedDict, collections.Counter])(made)


class Kind(NamedTuple):
    """What can be done with data of a kind, as text, and a function that draws some."""

    draw: Callable
    uses: list[str]
    effects: list[str]


def _lines(text: str) -> list[str]:
    return [one.strip() for one in re.split(r"\n| \| ", text.strip())]


KINDS = {
    "number": Kind(
        _number,
        _lines(
            """
            v * {a} | ({a} if {a} else 0.3) | np.copysign(v, {a}) | {a} / 3 * v | {a} // 2 * v
            (v if {a} == {b} else 2.0) | (v if isinstance({a}, int) else 0.4) | abs({a}) * v
            v ** {a} | (v if {a} is None else 0.1) | (v if {a} is {b} else 0.2) | (-{a}) * v
            np.copysign(v, {a}.imag) | {a}.real * v | (v if {a} == 'ab' else -v) | v + len({a})
            round({a}) * v | (v if {a} > 0.5 else -v) | float({a}) * v
            (v if type({a}) is int else 1.0)
            """
        ),
        [],
    ),
    "sequence": Kind(
        _sequence,
        _lines(
            """
            {a}[k % len({a})] * v | sum({a}) * v | len({a}) * v | np.copysign(v, {a}[0])
            (v if {a} else 0.1) | max({a}) * v | (v if {a} is {b} else 0.2)
            {a}[-1] * {a}[0] * v | (v if 1 in {a} else 0.3) | {a}[0] // 2 * v | {a}[0] / 3 * v
            np.sum({a}) * v | sum([r * v for r in {a}]) | (v if {a}[0] is {a}[1] else 0.1)
            float({a}[0]) * v | {a}[int(v > 0)] * v | (v if isinstance({a}, list) else -v)
            {a}[0] ** 2 * v | np.dot({a}, {a}) * v | ({a}[0] if {a}[0] > 1 else v)
            int({a}[0]) * v | (v if {a} == {b} else 0.2)
            """
        ),
        ["{a}[0] = {a}[0] + 1", "{a}.append(1.0)", "{a}[k % 2] = 2.0", "{a}[0] += 1"],
    ),
    "object": Kind(
        _object,
        _lines(
            """
            {a}.rate * v | {a}.table[k % 2] * v | {a}.scale(v) | getattr({a}, 'rate', 2.0) * v
            (v if hasattr({a}, 'more') else 0.3) | getattr({a}, 'more', 0.7) * v | {a}.kind * v
            (v if {a} is {b} else 0.2) | (v if {a}.table is {b} else 0.1) | ({a}.rate or v)
            (v if isinstance({a}, Settings) else 0.6) | sum({a}.table) * v | (v if {a} else 1.0)
            (v if {a} == {b} else 0.2) | (v if {a}.table is {a}.table else 0.1)
            """
        ),
        ["{a}.count = 1", "{a}.rate = {a}.rate + 1.0", "{a}.table[0] = 2.0", "Settings.kind = 2.0"],
    ),
    "function": Kind(
        _function,
        _lines(
            """
            {a}(v) | {a}({a}(v)) | {a}(v) * {a}(0.5) | (v if {a} is {b} else 0.2)
            np.sum({a}(x))
            """
        ),
        [],
    ),
    "dict": Kind(
        _dict,
        _lines(
            """
            {a}['p'] * v | {a}.get('q', 0.3) * v | (v if 'q' in {a} else 0.1) | len({a}) * v
            sum([{a}[key] * v for key in {a}]) | sum({a}.values()) * v | (v if {a} else 0.2)
            (v if 1 in {a} else 0.3) | {a}['p'][k % 2] * v | (v if {a} is {b} else 0.2)
            sum([w * v for key, w in {a}.items() if key != 'q']) | [*{a}.values()][0] * v
            """
        ),
        ["{a}['n'] = 1", "{a}['p'] = 2.0", "{a}['m'] = {a}.get('m', 0) + 1"],
    ),
}
