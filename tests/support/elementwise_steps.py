"""Element-wise steps of programs evaluated by NumPy, and random ones."""

import numpy as np
from hypothesis import strategies as st
from program_parts import call
from rows import expression

from tapegrad._core.ops.table import BY_CODE, TABLE, product
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.replay.parts import Run


def places(view):
    """The slot of each element."""
    slots = np.full(view.shape, view.offset)
    for axis, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        slots += (np.arange(n) * stride).reshape(n, *[1] * (len(view.shape) - axis - 1))
    return slots


def read(memory, view):
    return memory[view.base][places(view)]


def expressions(op, texts, inputs, out, **more):
    """Expressions of an operation evaluated by NumPy, its steps first."""
    known = dict(zip(op.inputs, inputs, strict=True), **more)
    for name, text in op.needed(*texts):
        known[name] = _evaluated(op, text, known, out)
    return [_evaluated(op, text, known, out) for text in texts]


def _evaluated(op, text, known, out):
    class Names:
        inputs = tuple(known)

    return expression(Names, text, list(known.values()), out)


def values(step, memory):
    """The value of each operation."""
    found = []
    for code, operands in step.ops:
        op = BY_CODE[code]
        inputs = [found[o] if isinstance(o, int) else read(memory, o) for o in operands]
        found += expressions(op, [op.value], inputs, np.empty(step.shape))
    return found


def forward(step, memory):
    """Write the results of a step."""
    found = values(step, memory)
    for number, view in step.stores:
        memory[view.base][places(view)] = found[number]
    for number, view in step.sums:
        empty = View(view.offset, *zip(*kept, strict=True)) if (kept := _kept(view)) else view
        memory[view.base][places(empty) if kept else view.offset] = 0.0
        np.add.at(memory[view.base], places(view), found[number])


def _kept(view):
    """The axes of a view that are not summed."""
    axes = zip(view.shape, view.strides, strict=True)
    return [(n, stride) for n, stride in axes if stride]


def reverse(step, memory, adjoints, wanted):
    """Add to the adjoints of what a step reads; an adjoint of exactly 0 gives 0."""
    found = values(step, memory)
    own = [np.zeros(step.shape) for _ in step.ops]
    for number, view in (*step.stores, *step.sums):
        own[number] = own[number] + read(adjoints, view)
    given = {}
    for k in reversed(range(len(step.ops))):
        op, operands = BY_CODE[step.ops[k][0]], step.ops[k][1]
        inputs = [found[o] if isinstance(o, int) else read(memory, o) for o in operands]
        texts = [product("g", partial) for partial in op.partials]
        parts = expressions(op, texts, inputs, found[k], g=own[k])
        for j in sorted(range(len(parts)), key=lambda j: op.partials[j] == "1.0"):
            part = parts[j]
            if isinstance(operands[j], int):
                own[operands[j]] = own[operands[j]] + part
            elif wanted(operands[j]):
                given[operands[j]] = given.get(operands[j], 0.0) + part
    for view, part in given.items():
        np.add.at(adjoints[view.base], places(view), part)


def run(part, name, memory, adjoints):
    """Run a pass of a part; `memory` and `adjoints` hold an array for each base."""
    memory_of = Run(memory[0].size, len(memory))
    memory_of.values[:], memory_of.adjoints[:] = memory[0], adjoints[0]
    memory_of.scratch[:] = np.nan
    for base in range(1, len(memory)):
        memory_of.value_bases[base] = memory[base].ctypes.data
        memory_of.adjoint_bases[base] = adjoints[base].ctypes.data
    if address := getattr(part, name):
        assert call(address, memory_of, part.data) == 0
    memory[0][:], adjoints[0][:] = memory_of.values, memory_of.adjoints


def same(got, wanted, exact):
    """Equal, bit by bit (but for the sign of 0) or to rounding relative to the largest."""
    for mine, right in zip(got, wanted, strict=True):
        if exact:
            assert np.array_equal(mine, right, equal_nan=True)
            continue
        finite = np.isfinite(right)
        assert np.array_equal(mine[~finite], right[~finite], equal_nan=True)
        scale = np.max(np.abs(right[finite]), initial=1e-300)
        assert np.max(np.abs(mine - right)[finite], initial=0.0) <= 1e-12 * scale


def code(name):
    return TABLE[name].code


#: Operations whose value and slopes are rounded once per arithmetic operation, and others.
EXACT = ("add subtract multiply divide negative square reciprocal sqrt maximum clip where").split()
ROUNDED = "sin exp tanh log1p arctan".split()
SHAPES = [(), (1,), (0,), (9,), (1300,), (3, 700), (2, 3, 50), (700, 3), (5, 1, 30), (4, 0, 3)]
SHAPES += [(40, 25, 10), (2, 2, 600), (130, 128)]


class Arena:
    """Memory that is given out: base 0, and bases of their own."""

    def __init__(self):
        self.sizes = [8]

    def slots(self, count, base=0):
        if base == len(self.sizes):
            self.sizes.append(0)
        start = self.sizes[base]
        self.sizes[base] += count
        return start

    def memory(self, rng):
        return [rng.uniform(0.5, 1.5, size) for size in self.sizes]


@st.composite
def views(draw, arena, shape, base):
    """A view of new slots: whole, of one number, broadcast, transposed, backwards, overlapping."""
    ndim, count = len(shape), int(np.prod(shape))
    kind = draw(st.sampled_from(["whole", "whole", "one", "broadcast", "order", "back", "slide"]))
    if kind == "one" or ndim == 0:
        return View(arena.slots(1, base), shape, (0,) * ndim, base)
    if kind == "slide":
        offset = arena.slots(sum(shape) + 1, base)
        return View(offset + draw(st.integers(0, 1)), shape, (1,) * ndim, base)
    if kind == "broadcast":
        kept = draw(st.lists(st.booleans(), min_size=ndim, max_size=ndim))
        small = tuple(n if keep else 1 for n, keep in zip(shape, kept, strict=True))
        strides = contiguous(0, small).strides
        strides = tuple(s if keep else 0 for s, keep in zip(strides, kept, strict=True))
        return View(arena.slots(int(np.prod(small)), base), shape, strides, base)
    offset = arena.slots(2 * count + 2, base)
    if kind == "order":
        axes = draw(st.permutations(range(ndim)))
        inner = contiguous(0, tuple(shape[axis] for axis in axes)).strides
        step = draw(st.integers(1, 2))
        strides = tuple(step * inner[axes.index(axis)] for axis in range(ndim))
        return View(offset, shape, strides, base)
    strides = contiguous(0, shape).strides
    if kind == "back" and count:
        return View(offset + (shape[-1] - 1), shape, (*strides[:-1], -1), base)
    return View(offset, shape, strides, base)


@st.composite
def steps(draw, names=tuple(EXACT), bases=2):
    """A step, and how large its memories are."""
    arena = Arena()
    shape = draw(st.sampled_from(SHAPES))
    operands = [draw(views(arena, shape, 0))]
    for _ in range(draw(st.integers(0, 4))):
        base = draw(st.integers(0, min(bases - 1, len(arena.sizes))))
        operands.append(draw(views(arena, shape, base)))
        view = operands[-1]
        if draw(st.booleans()):  # one that overlaps it
            arena.slots(1, base)
            operands.append(View(view.offset + 1, shape, view.strides, base))
    ops = []
    for _ in range(draw(st.integers(1, 8))):
        op = TABLE[draw(st.sampled_from(names))]
        nodes = st.sampled_from([*operands, *range(len(ops)), *range(len(ops))])
        ops.append((op.code, tuple(draw(nodes) for _ in op.inputs)))
    stores, sums = [], []
    for number in draw(st.lists(st.integers(0, len(ops) - 1), min_size=0, max_size=2)):
        size = int(np.prod(shape))
        stores.append((number, contiguous(arena.slots(size), shape)))
    for number in draw(st.lists(st.integers(0, len(ops) - 1), min_size=not stores, max_size=2)):
        kept = [n if draw(st.booleans()) else 0 for n in shape]
        strides = contiguous(0, tuple(n or 1 for n in kept)).strides
        strides = tuple(s if n else 0 for s, n in zip(strides, kept, strict=True))
        size = int(np.prod([n for n in kept if n], initial=1))
        sums.append((number, View(arena.slots(size), shape, strides)))
    return Elementwise(shape, ops, stores, sums), arena
