"""Parts of programs called one by one, and what slots they read and write: for their tests."""

import ctypes

import numpy as np

from tapegrad._program.ir.steps import ARENA
from tapegrad._program.replay.parts import Run

_prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def always(view):
    return True


def of_arena(view):
    return view.base == ARENA


def call(address, run, data):
    return _prototype(address)(run.words.ctypes.data, data.ctypes.data)


def seen(memory, view):
    """The array of a view in an arena, or in another base's memory."""
    strides = [8 * stride for stride in view.strides]
    return np.lib.stride_tricks.as_strided(memory[view.offset :], view.shape, strides)


class Arena:
    """A run with random values and adjoints, and copies of both as they were before."""

    def __init__(self, slots, rng, *bases):
        self.run = Run(slots, 1 + len(bases))
        self.run.values[:] = rng.normal(size=slots)
        self.run.adjoints[:] = rng.normal(size=slots)
        self.bases = [(base, rng.normal(size=base.shape)) for base in bases]
        for k, (values, adjoints) in enumerate(self.bases):
            self.run.value_bases[k + 1] = values.ctypes.data
            self.run.adjoint_bases[k + 1] = adjoints.ctypes.data
        self.values, self.adjoints = self.run.values.copy(), self.run.adjoints.copy()

    def forward(self, part):
        return call(part.forward, self.run, part.data)

    def reverse(self, part):
        return call(part.reverse, self.run, part.data) if part.reverse else 0

    def value(self, view):
        """Values of a view as they are now."""
        return seen(self.bases[view.base - 1][0] if view.base else self.run.values, view)

    def adjoint(self, view):
        return seen(self.bases[view.base - 1][1] if view.base else self.run.adjoints, view)
