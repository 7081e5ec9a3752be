"""Large arrays put together of parts in programs: boxes against arrays of slots, and values."""

import random
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad._program.dispatch import variants
from tapegrad._program.dispatch.signature import Arguments
from tapegrad._program.ir.moving_step import Link, Pack
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.ir.uses import pattern, slots_of
from tapegrad._program.lowering import buffers, lower
from tapegrad._program.lowering.buffers import (
    IndexBox,
    all_of,
    part_of,
    placed,
    seen,
    whole_of,
    without,
)

NONE = -99


def as_array(boxes, shape):
    """The slots of all elements."""
    found = np.full(shape, NONE)
    for low, high, source in boxes:
        inside = tuple(map(slice, low, high))
        assert (found[inside] == NONE).all()
        found[inside] = slots_of(source)
    return found


def some_boxes(rng, shape):
    """Boxes of an array that has been written to, and its slots."""
    boxes = [all_of(contiguous(1000, shape))]
    slots = as_array(boxes, shape)
    for k in range(rng.choice([0, 1, 2, 3])):
        low = tuple(rng.randrange(n) for n in shape)
        high = tuple(rng.randrange(a + 1, n + 1) for a, n in zip(low, shape, strict=True))
        size = tuple(b - a for a, b in zip(low, high, strict=True))
        source = contiguous(2000 + 1000 * k, size)
        if rng.random() < 0.3:
            source = View(source.offset, size, (0,) * len(size))
        boxes = [*without(boxes, low, high), IndexBox(low, high, source)]
        slots[tuple(map(slice, low, high))] = slots_of(source)
    return boxes, slots


def some_view(rng, array):
    """A view of an array: slices, transposed, broadcast."""
    for _ in range(rng.choice([0, 1, 2])):
        index = []
        for n in array.shape:
            first = rng.randrange(n)
            choices = [slice(None), slice(None, None, -1), slice(None, None, 2), slice(first, None)]
            index.append(rng.choice([*choices, first]))
        array = array[(*index, ...)]
        array = rng.choice(
            [array, array, array.T, array[None], np.broadcast_to(array, (2, *array.shape))]
        )
    return array


def element_view(view, array):
    """A view of an array in C order as one of elements, and its first element."""
    offset = (view.ctypes.data - array.ctypes.data) // array.itemsize
    return View(0, view.shape, tuple(step // array.itemsize for step in view.strides)), offset


@pytest.mark.parametrize("seed", range(200))
def test_views_of_boxes_show_what_arrays_of_slots_do(seed):
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 4, 5]) for _ in range(rng.choice([1, 2, 3])))
    boxes, slots = some_boxes(rng, shape)
    np.testing.assert_array_equal(as_array(boxes, shape), slots)
    array = np.zeros(shape)
    view = some_view(rng, array)
    shown, offset = element_view(view, array)
    wanted = as_strided(slots.ravel()[offset:], view.shape, [8 * step for step in shown.strides])
    part = part_of(shape, offset, shown.shape, shown.strides)
    found = seen(boxes, part)
    np.testing.assert_array_equal(as_array(found, view.shape), wanted)
    whole, regular = whole_of(found, view.shape), pattern(wanted.copy())
    assert (whole is None) == (regular is None)
    if whole is not None:
        np.testing.assert_array_equal(slots_of(whole), wanted)
    if part.is_box():
        written = [all_of(contiguous(9000, view.shape))]
        (box,) = placed(written, part)
        wanted[...] = slots_of(written[0].source)
        left = [*without(boxes, box.low, box.high), box]
        np.testing.assert_array_equal(as_array(left, shape), slots)


def test_views_across_axes_are_no_parts():
    array = np.zeros((4, 6))
    for view in (array.reshape(-1), array.reshape(-1)[::5], as_strided(array, (3,), (56,))):
        shown, offset = element_view(view, array)
        assert part_of(array.shape, offset, shown.shape, shown.strides) is None


# --- programs -----------------------------------------------------------------------------------


def rolled(x):
    """Joins along both axes, of joins."""
    y = x
    for _ in range(3):
        y = np.sin(np.roll(y, 1, 0) * np.roll(y, -1, 1)) + y
    return y


def written(x):
    """Slices written in place, that overlap, and elements."""
    y = 1.0 * x
    y[1:-1, 2:] += 0.5 * x[1:-1, 2:] * y[0, 0]
    y[2:4] = np.cos(y[3:5])
    y[1, 1] *= y[2, 2]
    z = y[::-1].T.copy()
    z[3:, :2] = 0.25
    return z * y[0, 1] + y.T


def padded(x):
    """Constants around, in other memory orders, broadcast."""
    y = tnp.pad(x, 2)[1:-1, 1:-1]
    z = tnp.concatenate([np.arange(8.0)[None], y.T, np.full((1, 8), 0.5)])
    z[:, 3] = y[:3].sum()
    z[0] = tnp.stack([x[0, 0], *[x[1, 1]] * 7])
    return np.broadcast_to(z, (2, *z.shape)) * z.reshape(-1)[:8]


def windows(x):
    """Views across axes, of what boxes have been written to."""
    y = 1.0 * x
    y[:, 0] = x[:, 1] * 2.0
    flat = y.reshape(-1)
    flat[5:17] *= flat[3]
    return np.concatenate([flat[::2], y[1], y[:, ::-1].T.reshape(-1)])


def summed(x):
    """Elements that several are added to, and the same array joined twice."""
    y = np.concatenate([x, x[::-1]], 1)
    rows = [[0, 1, 2], [1, 2, 3]]
    return y[rows].sum(0) * np.tile(x[:1], (1, 2)) + y[::2, ::-1][:3]


FUNCTIONS = [rolled, written, padded, windows, summed]


def programs_of(f, x, monkeypatch, large):
    monkeypatch.setattr(buffers, "LARGE", large)
    monkeypatch.setattr(lower, "LARGE", large)
    compiled = tg.compile(lambda x: (f(x) * np.cos(np.arange(f(x).size)).reshape(f(x).shape)).sum())
    found = [compiled.value_and_grad(x) for _ in range(3)]
    assert compiled._reason is None
    (family,) = compiled._families.found.values()
    return found, family.found[0].program.code


@pytest.mark.parametrize("f", FUNCTIONS)
def test_programs_with_boxes_give_what_those_without_give(f, monkeypatch):
    x = np.random.default_rng(0).uniform(0.1, 1.0, (6, 6))
    found, _ = programs_of(f, x, monkeypatch, 1)
    other, _ = programs_of(f, x, monkeypatch, 1 << 40)
    for (value, gradient), (wanted, slope) in zip(found, other, strict=True):
        assert value == wanted
        np.testing.assert_array_equal(gradient, slope)
    weights = np.cos(np.arange(f(x).size)).reshape(f(x).shape)
    value, gradient = tg.value_and_grad(lambda x: (f(x) * weights).sum())(x)
    np.testing.assert_allclose(found[0][0], value, rtol=1e-13)
    np.testing.assert_allclose(found[0][1], gradient, rtol=1e-12, atol=1e-13)


def test_what_is_rolled_is_linked_and_not_packed(monkeypatch):
    x = np.random.default_rng(1).uniform(0.1, 1.0, (60, 60))
    _, code = programs_of(rolled, x, monkeypatch, buffers.LARGE)
    assert not code.of(Pack) and len(code.of(Link)) == 6
    pairs = [len(step.pairs) for step in code.of(Link).values()]
    assert pairs == [2] * 6


def drawn(x):
    """Data at each step, numbers and arrays."""
    y, total = x, 0.0
    for k in range(4):
        noise = np.random.default_rng(k).normal(size=x.shape)
        y = y * np.exp(0.1 * x[0, 0] * noise) + np.ones(x.shape)
        total = total + y * (y.mean() > 0.0)
    return total


def calls_of_a_conversion(f, x):
    """How often anything is called while a recording is made a program."""
    for _ in range(2):  # in the first round things are remembered
        counts = [0]

        def count(frame, event, arg, counts=counts):
            counts[0] += event in ("call", "c_call")

        with variants.traced_call(lambda x: f(x).sum(), Arguments((x,), {}, (0,))) as traced:
            sys.setprofile(count)
            try:
                variant, reason = traced.program()
            finally:
                sys.setprofile(None)
        assert variant is not None and reason is None
    return counts[0]


@pytest.mark.parametrize("f", [rolled, written, drawn])
def test_nothing_is_called_for_each_element(f):
    x = np.random.default_rng(2).uniform(0.1, 1.0, (192, 192))
    found, wanted = (calls_of_a_conversion(f, one) for one in (x, x[:96, :96].copy()))
    assert found < wanted + 0.1 * (x.size - x.size // 4)  # large inputs stay with the caller
