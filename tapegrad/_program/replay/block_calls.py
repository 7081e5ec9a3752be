"""Element-wise steps in compiled code: a table of words, and calls that find their arguments in it.

A pass over a step is a list of words, most of them addresses, and three lists of calls: some are
made once, some for each group (one position of the outer axes), some for each block. A call is
`function(n, words)` over the n elements of the block, with contiguous words. A word moves by a
fixed amount from block to block and along each outer axis, so that nothing is looked up meanwhile:
views, block buffers in scratch memory and positions are all words.
"""

import functools

from ..._core.codegen import elements
from ..._core.codegen import machine_types as types
from ..._core.codegen.elements import ITEM, floats, load_float, store_float, sum_of_run
from ..._core.codegen.factory import compile_source
from ..._core.codegen.intrinsics import (
    apart,
    call_address,
    helper,
    i64s,
    load_i64,
    memset,
    store_i64,
)
from ..._core.codegen.layout import DIMENSIONS, FRAME_BYTES, FRAME_SCRATCH
from ..._core.codegen.strided_memory import Strided, add_block, block_of, next_line
from .move_kernels import add_rows, copy_rows
from .run_layout import RUN_SCRATCH

# a pass: words of its head, byte offsets; those named AT_… are byte offsets from the head
(
    ORIGINS,  # the number of memories that it uses, after the three below
    AT_ORIGINS,  # for each: word of the run with a table of addresses, byte offset in the table
    WORDS,
    AT_KINDS,  # of each word: the number of the origin that is added to it
    AT_OFFSETS,
    AT_STEPS,  # the distance from block to block
    AT_MOVES,  # for each outer axis: how far it moves when that axis counts on
    AXES,  # the number of outer axes
    AT_SHAPE,  # the sizes of the outer axes
    GROUPS,
    SIZE,  # elements of a group
    LENGTH,  # elements of a block
    AT_CALLS,  # address of the function, byte offset of its first word
    FIRST,  # the number of calls that are made once,
    ONCE,  # for each group,
    EACH,  # and for each block
) = range(0, 8 * 16, 8)
HEAD_BYTES = 8 * 16
#: Origins that every pass has: nothing, its part's data, scratch memory.
NOTHING, DATA, SCRATCH = range(3)
FIXED = 3
#: Scratch memory begins with the frame of `strided` and its index, then the counters of the outer
#: axes, the origins, the words of the group and of the block.
AT_INDEX = FRAME_BYTES
AT_COUNTERS = AT_INDEX + 8 * DIMENSIONS
AT_TABLES = AT_COUNTERS + 8 * DIMENSIONS

call_kernel = call_address(types.none(types.int64, types.int64))


@helper
def run_calls(calls, count, n, words):
    for k in range(count):
        call_kernel(load_i64(calls, 16 * k), n, words + load_i64(calls, 16 * k + 8))


@helper
def prepare(run, data, head, scratch):
    """Compute the words for the first block; returns their address."""
    count, origins = load_i64(head, ORIGINS), i64s(scratch + AT_TABLES)
    origins[NOTHING], origins[DATA], origins[SCRATCH] = 0, data, scratch
    tables = head + load_i64(head, AT_ORIGINS)
    for k in range(count):
        table = load_i64(run, load_i64(tables, 16 * k))
        origins[FIXED + k] = load_i64(table, load_i64(tables, 16 * k + 8))
    words = scratch + AT_TABLES + 8 * (FIXED + count)
    kinds, offsets = (
        i64s(head + load_i64(head, AT_KINDS)),
        i64s(head + load_i64(head, AT_OFFSETS)),
    )
    w = i64s(words)
    for k in range(load_i64(head, WORDS)):
        w[k] = origins[kinds[k]] + offsets[k]
    store_i64(scratch, FRAME_SCRATCH, scratch + AT_INDEX)
    return words


@helper
def add_words(words, moves, count):
    w, m = i64s(words), i64s(moves)
    for k in range(count):
        w[k] += m[k]


@helper
def next_group(head, scratch, words):
    """Advance along the outer axes, and move the words."""
    apart()
    counters, shape = scratch + AT_COUNTERS, head + load_i64(head, AT_SHAPE)
    axis = load_i64(head, AXES) - 1
    while load_i64(counters, 8 * axis) + 1 == load_i64(shape, 8 * axis):
        store_i64(counters, 8 * axis, 0)
        axis -= 1
    store_i64(counters, 8 * axis, load_i64(counters, 8 * axis) + 1)
    count = load_i64(head, WORDS)
    add_words(words, head + load_i64(head, AT_MOVES) + 8 * count * axis, count)


@helper
def execute(run, data, number):
    """Make the calls of one of a part's passes; its data begin with the place of each of them."""
    apart()
    head, scratch = data + load_i64(data, 8 * number), load_i64(run, RUN_SCRATCH)
    words = prepare(run, data, head, scratch)
    count, size, length = load_i64(head, WORDS), load_i64(head, SIZE), load_i64(head, LENGTH)
    calls, groups = head + load_i64(head, AT_CALLS), load_i64(head, GROUPS)
    run_calls(calls, load_i64(head, FIRST), 0, words)
    once_calls = calls + 16 * load_i64(head, FIRST)
    block_calls = once_calls + 16 * load_i64(head, ONCE)
    for axis in range(load_i64(head, AXES)):
        store_i64(scratch, AT_COUNTERS + 8 * axis, 0)
    steps, moving = head + load_i64(head, AT_STEPS), words + 8 * count
    for group in range(groups):
        run_calls(once_calls, load_i64(head, ONCE), length, words)
        w, m = i64s(words), i64s(moving)
        for k in range(count):
            m[k] = w[k]
        left = size
        while left > length:
            run_calls(block_calls, load_i64(head, EACH), length, moving)
            add_words(moving, steps, count)
            left -= length
        run_calls(block_calls, load_i64(head, EACH), left, moving)
        if group + 1 < groups:
            next_group(head, scratch, words)
    return 0


# Functions that are called. `axes` is the address of their number, lengths and strides in bytes.


@helper
def fill(n, source, target):
    """A block of one value."""
    value, block = load_float(source, 0), floats(target)
    for i in range(n):
        block[i] = value


@helper
def zero(n, target):
    memset(target, 0, ITEM * n)


@helper
def copy(n, source, target):
    s, t = floats(source), floats(target)
    for i in range(n):
        t[i] = s[i]


@helper
def add(n, source, target):
    s, t = floats(source), floats(target)
    for i in range(n):
        t[i] += s[i]


@helper
def add_one(n, source, target):
    store_float(target, 0, load_float(target, 0) + load_float(source, 0))


@helper
def add_total(n, source, target):
    store_float(target, 0, load_float(target, 0) + sum_of_run(source, n))


@helper
def along(axes, data):
    """Memory from `data` on along some axes."""
    ndim = load_i64(axes, 0)
    return Strided(data, axes + 8 * (ndim + 1), axes + 8, ndim)


@helper
def take(n, frame, axes, start, source, block):
    """A block of elements that are not contiguous."""
    block_of(frame, along(axes, source), start, n, block, ITEM)


@helper
def give(n, frame, axes, start, block, target):
    """Add a block to elements that are not contiguous."""
    add_block(frame, along(axes, target), start, n, block, ITEM)


@helper
def take_rows(n, start, places, width, source, block):
    """Elements from one on of rows at places, counted in C order, as a block."""
    row, skip, done = start // width, start % width, 0
    if skip != 0:
        done = min(n, width - skip)
        copy_rows(block, source + skip * ITEM, places + 8 * row, 1, done)
        row += 1
    whole = (n - done) // width
    copy_rows(block + done * ITEM, source, places + 8 * row, whole, width)
    done += whole * width
    if done < n:
        copy_rows(block + done * ITEM, source, places + 8 * (row + whole), 1, n - done)


@helper
def give_rows(n, start, places, width, target, block):
    """Add a block to elements from one on of rows at places."""
    row, skip, done = start // width, start % width, 0
    if skip != 0:
        done = min(n, width - skip)
        add_rows(target + skip * ITEM, places + 8 * row, block, 1, done)
        row += 1
    whole = (n - done) // width
    add_rows(target, places + 8 * row, block + done * ITEM, whole, width)
    done += whole * width
    if done < n:
        add_rows(target, places + 8 * (row + whole), block + done * ITEM, 1, n - done)


@helper
def clear(n, frame, axes, target):
    """Set all elements of a view to 0."""
    _, strides, shape, ndim = along(axes, target)
    if ndim == 0:
        store_float(target, 0, 0.0)
        return
    lines, length, step = 1, load_i64(shape, 8 * ndim - 8), load_i64(strides, 8 * ndim - 8)
    index = i64s(load_i64(frame, FRAME_SCRATCH))
    for axis in range(ndim - 1):
        lines *= load_i64(shape, 8 * axis)
        index[axis] = 0
    for _ in range(lines):
        if step == ITEM:
            memset(target, 0, ITEM * length)
        else:
            for i in range(length):
                store_float(target, i * step, 0.0)
        target += next_line(index, strides, shape, ndim - 1)


#: The functions that are called, and their numbers of words.
CALLED = {
    "fill": 2,
    "zero": 1,
    "copy": 2,
    "add": 2,
    "add_one": 2,
    "add_total": 2,
    "take": 5,
    "give": 5,
    "take_rows": 5,
    "give_rows": 5,
}
CALLED["clear"] = 3
PASSES = ("forward", "reverse", "both")
#: Those of a step that is not evaluated in one pass.
APART = PASSES[:2]


def _source(item: int) -> str:
    lines = [
        "from tapegrad._core.codegen.intrinsics import i64s",
        elements.head(item, "tapegrad._program.replay.block_calls"),
    ]
    for number, name in enumerate(PASSES):
        lines += ["", "", f"def {name}(run, data):"]
        lines += [f"    return block_calls.execute(run, data, {number})"]
    for name, count in CALLED.items():
        words = ", ".join(f"at[{k}]" for k in range(count))
        lines += ["", "", f"def {name}(n, words):", "    at = i64s(words)"]
        lines += [f"    block_calls.{name}(n, {words})"]
    return "\n".join(lines) + "\n"


@functools.cache
def compiled(item: int) -> dict[str, int]:
    """Addresses of the three passes of a part, and of the functions that are called.

    They are for elements of so many bytes.
    """
    signatures = dict.fromkeys(PASSES, "int64(int64, int64)")
    return compile_source(_source(item), signatures | dict.fromkeys(CALLED, "void(int64, int64)"))
