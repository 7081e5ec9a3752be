"""Loops of random instructions; what these read is made up of (kind, number)."""

import numpy as np
from hypothesis import strategies as st
from scalar_programs import Trace

KINDS = ["state", "local", "fixed", "moving", "backwards", "picked", "number", "varying"]
UNARY = {"negative", "square", "sin", "exp", "tanh"}
picked = st.lists(st.integers(0, 10_000), max_size=3)


def bodies(names, kinds=KINDS):
    operand = st.tuples(st.sampled_from(kinds), st.integers(0, 7))
    instruction = st.tuples(st.sampled_from(names), operand, operand)
    return st.lists(instruction, min_size=2, max_size=9)


class RandomLoops:
    """A trace that loops are written to. `carried` gives what the next iteration sees as states."""

    def __init__(self, inputs):
        self.trace = Trace(np.random.default_rng(11).uniform(-1.0, 1.0, inputs))
        self.states = self.before = self.initial()
        self.results = []

    def initial(self):
        raise NotImplementedError

    def carried(self, local):
        raise NotImplementedError

    def read(self, kind, j, k, local):
        inputs = self.trace.inputs
        if kind == "local" and local:
            return local[-1 - j % len(local)]
        return {
            "fixed": inputs[j],
            "moving": inputs[10 + j + 3 * k],
            "backwards": inputs[len(inputs) - 10 - j - k],
            "picked": inputs[(k * k * 7 + j) % (len(inputs) - 60)],
            "number": 0.25 * j - 1.0,
            "varying": ((k * 37 + j) % 19) / 19.0,
            "before": self.before[j % len(self.before)],
        }.get(kind, self.states[j % len(self.states)])

    def run(self, instructions, count):
        for k in range(count):
            local = []
            for name, x, y in instructions:
                operands = [x] if name in UNARY else [x, y]
                local.append(self.trace.call(name, *[self.read(*z, k, local) for z in operands]))
            self.results += local
            self.before, self.states = self.states, self.carried(local)

    def program(self, states, picked):
        outputs = [self.results[j % len(self.results)] for j in picked]
        return self.trace.program(*states, *outputs)
