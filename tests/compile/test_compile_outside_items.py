"""`tg.compile`: containers and memory from outside of which calls change some items themselves."""

import array
import collections
import ctypes
import mmap
import types

import numpy as np
import pytest
from compiled import counts

import tapegrad as tg

X = np.array([1.0, 2.0])


def _slots():
    class Slotted:
        __slots__ = ("calls", "scale")

    made = Slotted()
    made.calls, made.scale = 0, 2.0
    return made


def _add(held, key):
    held[key] = held[key] + 1


def _count(held):
    held.calls += 1


#: Something that holds 2.0, what a function does to it besides, how it reads the 2.0, and how this
#: becomes 5.0.
HOLDING = {
    "an item of a dict": (
        lambda: {"scale": 2.0, "calls": 0},
        lambda d: _add(d, "calls"),
        lambda d: d["scale"],
        lambda d: d.update(scale=5.0),
    ),
    "a dict that grows": (
        lambda: {"scale": 2.0},
        lambda d: d.setdefault("seen", []).append(1),
        lambda d: d["scale"],
        lambda d: d.update(scale=5.0),
    ),
    "a dict that shrinks": (
        lambda: {"other": 1.0, "scale": 2.0},
        lambda d: d.pop("other", None),
        lambda d: d["scale"],
        lambda d: d.update(scale=5.0),
    ),
    "keys of a dict": (
        lambda: {"calls": 0, 1: "scale"},
        lambda d: _add(d, "calls"),
        lambda d: 2.0 if 1 in d else 5.0,
        lambda d: d.pop(1),
    ),
    "a new key": (
        lambda: {"calls": 0},
        lambda d: _add(d, "calls"),
        lambda d: d.get("scale", 2.0),
        lambda d: d.update(scale=5.0),
    ),
    "a defaultdict": (
        lambda: collections.defaultdict(int, scale=2.0),
        lambda d: _add(d, "calls"),
        lambda d: d["scale"],
        lambda d: d.update(scale=5.0),
    ),
    "a counter": (
        lambda: collections.Counter(scale=2),
        lambda d: d.update(["calls"]),
        lambda d: d["scale"],
        lambda d: d.update(scale=3),
    ),
    "an item of a list": (
        lambda: [0, 2.0],
        lambda d: _add(d, 0),
        lambda d: d[1],
        lambda d: d.__setitem__(1, 5.0),
    ),
    "a list that grows": (
        lambda: [2.0],
        lambda d: d.append(1),
        lambda d: d[0],
        lambda d: d.__setitem__(0, 5.0),
    ),
    "the length of a list": (
        lambda: [0, 0],
        lambda d: _add(d, 0),
        lambda d: float(len(d)),
        lambda d: d.extend([1, 1, 1]),
    ),
    "a deque": (
        lambda: collections.deque([2.0]),
        lambda d: d.append(1),
        lambda d: d[0],
        lambda d: d.__setitem__(0, 5.0),
    ),
    "a set": (
        lambda: {2.0},
        lambda d: d.add(10 + len(d)),
        lambda d: 2.0 if 2.0 in d else 5.0,
        lambda d: d.discard(2.0),
    ),
    "an attribute": (
        lambda: types.SimpleNamespace(calls=0, scale=2.0),
        _count,
        lambda d: d.scale,
        lambda d: setattr(d, "scale", 5.0),
    ),
    "a slot": (_slots, _count, lambda d: d.scale, lambda d: setattr(d, "scale", 5.0)),
    "an array": (
        lambda: np.array([0.0, 2.0]),
        lambda d: _add(d, 0),
        lambda d: d[1],
        lambda d: d.__setitem__(1, 5.0),
    ),
    "an array in Fortran order": (
        lambda: np.asfortranarray([[0.0, 1.0], [2.0, 3.0]]),
        lambda d: _add(d, (0, 1)),
        lambda d: d[1, 0],
        lambda d: d.__setitem__((1, 0), 5.0),
    ),
    "an array of integers": (
        lambda: np.array([250, 2]),
        lambda d: _add(d, 0),
        lambda d: float(d[1]),
        lambda d: d.__setitem__(1, 5),
    ),
    "a tensor": (
        lambda: tg.tensor([0.0, 2.0]),
        lambda d: _add(d.numpy(), 0),
        lambda d: float(d[1]),
        lambda d: d.__setitem__(1, 5.0),
    ),
    "an array.array": (
        lambda: array.array("d", [0.0, 2.0]),
        lambda d: _add(d, 0),
        lambda d: d[1],
        lambda d: d.__setitem__(1, 5.0),
    ),
    "an array.array that grows": (
        lambda: array.array("d", [2.0]),
        lambda d: d.append(1.0),
        lambda d: d[0],
        lambda d: d.__setitem__(0, 5.0),
    ),
    "a bytearray": (
        lambda: bytearray([0, 2]),
        lambda d: _add(d, 0),
        lambda d: d[1],
        lambda d: d.__setitem__(1, 5),
    ),
}

#: The same without anything that the function does itself.
MEMORY = {
    "array.array": (
        array.array("d", [2.0, 1.0]),
        lambda d: d[0],
        lambda d: d.__setitem__(0, 5.0),
    ),
    "an empty array.array": (array.array("d"), lambda d: 2.0 + len(d), lambda d: d.append(1.0)),
    "bytearray": (bytearray([2]), lambda d: d[0], lambda d: d.__setitem__(0, 5)),
    "memoryview": (memoryview(bytearray([2])), lambda d: d[0], lambda d: d.__setitem__(0, 5)),
    "every other byte": (
        memoryview(bytearray([2, 3, 4]))[::2],
        lambda d: d[1],
        lambda d: d.__setitem__(1, 5),
    ),
    "ctypes": (ctypes.c_double(2.0), lambda d: d.value, lambda d: setattr(d, "value", 5.0)),
    "an array of ctypes": (
        (ctypes.c_int * 2)(1, 2),
        lambda d: d[1],
        lambda d: d.__setitem__(1, 5),
    ),
    "mmap": (mmap.mmap(-1, 8), lambda d: 1 + d[0], lambda d: d.__setitem__(0, 5)),
    "much of it": (
        array.array("d", [2.0] * 20_000),
        lambda d: d[-1],
        lambda d: d.__setitem__(-1, 5.0),
    ),
}


@counts
@pytest.mark.filterwarnings("ignore:.*runs eagerly, without a program. it changes held")  # arrays
@pytest.mark.parametrize("use", ["value", "grad"])
@pytest.mark.parametrize("what", HOLDING)
def test_what_a_call_leaves_of_a_container_is_checked(what, use):
    make, change_inside, read, change_outside = HOLDING[what]
    held = make()

    def f(x):
        change_inside(held)
        return np.sum(x * x) * read(held)

    c = tg.compile(f)
    for expected in (read(held), None):
        if expected is None:
            change_outside(held)
            expected = read(held)
        for _ in range(3):
            if use == "value":
                assert c(X) == 5.0 * expected
            else:
                np.testing.assert_array_equal(c.grad(X), 2.0 * X * expected)
    assert expected != read(make())  # it has become something else


@pytest.mark.parametrize("what", ["an array", "an array of integers", "a tensor", "an array.array"])
def test_what_the_first_call_leaves_of_memory_is_checked(what):
    make, change_inside, read, change_outside = HOLDING[what]
    held = make()
    start = float(held[0])

    def f(x):
        if float(held[0]) == start:
            change_inside(held)
        return x * read(held)

    c = tg.compile(f)
    for _ in range(3):
        assert c(3.0) == 6.0
    assert c._reason is None
    change_outside(held)
    for _ in range(3):
        assert c(3.0) == 15.0


def _filled(held):
    held.setdefault("scale", 2.0)


def _once(held):
    if held["scale"] == 0.0:
        held["scale"] = 2.0


@pytest.mark.parametrize("use", ["value", "grad"])
@pytest.mark.parametrize("change, held", [(_filled, {}), (_once, {"scale": 0.0})])
def test_what_the_first_call_alone_changes_is_compared(change, held, use):
    held = dict(held)

    def f(x):
        change(held)
        return np.sum(x * x) * held["scale"]

    c = tg.compile(f)
    for scale in (2.0, 5.0, 7.0):
        if scale > 2.0:
            held["scale"] = scale
        for _ in range(3):
            if use == "value":
                assert c(X) == 5.0 * scale
            else:
                np.testing.assert_array_equal(c.grad(X), 2.0 * X * scale)
    assert c._reason is None


@counts
def test_what_calls_leave_one_after_the_other():
    """Each way through the function changes another item."""
    held = {"a": 0, "b": 0, "scale": 2.0}

    def f(x, way):
        held["a" if way else "b"] += 1
        return x * held["scale"]

    c = tg.compile(f)
    for way in (True, False, True):
        for _ in range(3):
            assert c(3.0, way) == 6.0
    assert held["a"] == held["b"] == 2  # recorded, and compared
    held["scale"] = 5.0
    for way in (True, False):
        for _ in range(3):
            assert c(3.0, way) == 15.0


@pytest.mark.parametrize("what", MEMORY)
def test_memory_of_objects_is_compared(what):
    held, read, change = MEMORY[what]
    c = tg.compile(lambda x: x * read(held))
    before = read(held)
    for _ in range(3):
        assert c(3.0) == 3.0 * before
    change(held)
    assert read(held) != before
    for _ in range(3):
        assert c(3.0) == 3.0 * read(held)


def test_memory_that_is_compared_can_grow():
    """Its memory is not shown between calls: that would forbid it."""
    held = bytearray([2])
    c = tg.compile(lambda x: x * len(held))
    for _ in range(3):
        assert c(3.0) == 3.0
        held.append(1)
        assert c(3.0) == 3.0 * len(held)
        held.pop()


def test_keys_that_are_equal_and_of_another_type():
    held = {1: 2.0, "calls": 0}
    c = tg.compile(lambda x: x * len(str(next(iter(held)))))
    for key in (1, True, 1.0, 1):
        held.clear()
        held.update({key: 2.0, "calls": 0})
        for _ in range(3):
            assert c(3.0) == 3.0 * len(str(key))
