"""Blocks of strided memory read and added to, against NumPy's own views."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapegrad._core.codegen.layout import DIMENSIONS, FRAME_BYTES, FRAME_SCRATCH
from tapegrad._core.codegen.shared_kernels import compile_group

SPARE = 7.25  # what lies around memory that must not change


def call(name, array, start, n, block):
    """Call a function of blocks on an array of any strides."""
    address = compile_group("strided_memory")[name]
    index, frame = np.zeros(DIMENSIONS, np.int64), np.zeros(FRAME_BYTES // 8, np.int64)
    frame[FRAME_SCRATCH // 8] = index.ctypes.data
    strides, shape = np.array(array.strides, np.int64), np.array(array.shape, np.int64)
    words = [frame.ctypes.data, array.ctypes.data, strides.ctypes.data, shape.ctypes.data]
    words += [array.ndim, start, n, block.ctypes.data, array.itemsize]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 9)(address)(*words)


def seen(memory, numbers):
    """The elements of some memory that lie at these positions, which are strided, as a view."""
    strides = [stride // numbers.itemsize * memory.itemsize for stride in numbers.strides]
    return np.lib.stride_tricks.as_strided(memory[numbers.flat[0] :], numbers.shape, strides)


@st.composite
def blocks(draw):
    """Memory, an array of positions in it, a start and a number of elements.

    Some axes are broadcast, turned round or stepped, in any order.
    """
    shape = draw(st.lists(st.integers(1, 11), min_size=1, max_size=4))
    if draw(st.booleans()):
        shape[-1] = draw(st.integers(60, 70))
    steps = [draw(st.sampled_from((1, 1, 2, -1, 0))) for _ in shape]
    sizes = [1 if step == 0 else n * abs(step) for n, step in zip(shape, steps, strict=True)]
    order = draw(st.permutations(range(len(shape))))
    numbers = np.arange(np.prod(sizes)).reshape([sizes[axis] for axis in order])
    numbers = numbers.transpose(np.argsort(order))
    numbers = numbers[tuple(slice(None, None, step or 1) for step in steps)]
    numbers = np.broadcast_to(numbers, shape)
    dtype = draw(st.sampled_from((np.float64, np.float64, np.float32)))
    memory = np.random.default_rng(draw(st.integers(0, 99))).normal(size=np.prod(sizes))
    start = draw(st.integers(0, numbers.size - 1))
    return memory.astype(dtype), numbers, start, draw(st.integers(1, numbers.size - start))


@given(blocks())
def test_a_block_is_read(drawn):
    memory, numbers, start, n = drawn
    block = np.full(n + 8, SPARE, memory.dtype)
    call("block_of", seen(memory, numbers), start, n, block)
    assert (block[:n] == memory[numbers.ravel()[start : start + n]]).all()
    assert (block[n:] == SPARE).all()


@given(blocks())
def test_a_block_is_added(drawn):
    memory, numbers, start, n = drawn
    block = np.random.default_rng(1).normal(size=n).astype(memory.dtype)
    right = memory.astype(np.float64)
    np.add.at(right, numbers.ravel()[start : start + n], block)
    call("add_block", seen(memory, numbers), start, n, block)
    tolerance = 1e-13 if memory.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(memory, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", range(1, 14))
def test_sums_of_short_lines(length):
    """Each line of a block to one number, all of the block or a part that cuts lines in two."""
    lines, rng = 9, np.random.default_rng(length)
    block = rng.normal(size=lines * length)
    totals = np.zeros(lines)
    array = np.broadcast_to(totals[:, None], (lines, length))
    start, n = length // 2, lines * length - length
    call("add_block", array, start, n, block)
    right = np.zeros(lines)
    np.add.at(right, np.arange(start, start + n) // length, block[:n])
    np.testing.assert_allclose(totals, right, rtol=1e-13, atol=1e-14)
