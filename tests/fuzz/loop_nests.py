"""Random nests of loops over numbers: tables, what is carried, moving and picked inputs."""

import random

import numpy as np
from scalar_programs import Number, Trace

TWO = ["add", "subtract", "multiply", "minimum", "maximum"]
ONE = ["sin", "tanh", "absolute", "negative", "square"]
INPUTS = 400
#: What a cell of a table reads: cells before it, in its row and above.
NEIGHBOURS = [(-1, 0), (0, -1), (-1, -1), (-1, 1), (0, -2), (-2, 0), (-1, -2)]


class Nest:
    """A trace of loops that a seed chooses.

    Values live in `states`, which all loops share, in tables with a cell per iteration of the two
    innermost loops and one number around them, and in results of the same iteration.
    """

    def __init__(self, seed, counts):
        self.choose, self.counts = random.Random(seed), counts
        self.trace = Trace(np.random.default_rng(seed).uniform(-1.0, 1.0, INPUTS))
        self.states = [self.number() for _ in range(self.choose.randint(1, 6))]
        self.tables = [({}, self.number()) for _ in range(self.choose.randint(1, 2))]
        self.seen = []
        self.left = 6000  # operations

    def number(self):
        value = self.choose.choice([0.0, 0.5, 1.0, np.inf, -np.inf])
        fixed = self.trace.inputs[self.choose.randint(0, 5)]
        return fixed if self.choose.random() < 0.6 else self.trace.constant(value)

    def operand(self):
        """A function of the counters and of the results of the iteration so far."""
        choose, j = self.choose, self.choose.randint(0, 20)
        strides = [choose.choice([0, 0, 1, -1, 2, 7]) for _ in range(3)]
        table, (up, back) = choose.choice(self.tables), choose.choice(NEIGHBOURS)

        def at(counters):
            return j + sum(a * b for a, b in zip(strides, reversed(counters), strict=False))

        def cell(counters, _):
            row, column = (0, 0, *counters)[-2:]
            return table[0].get((row + up, column + back), table[1])

        return choose.choice(
            [
                *[cell] * 5,
                lambda _, local: local[-1 - j % len(local)] if local else self.states[0],
                lambda _, local: self.states[j % len(self.states)],
                lambda _, local: 0.25 * j - 1.0,
                lambda counters, _: at(counters) % 19 / 19.0,
                lambda _, local: self.trace.inputs[j],
                lambda counters, _: self.trace.inputs[at(counters) % INPUTS],
                lambda counters, _: self.trace.inputs[at([k * k for k in counters]) % INPUTS],
            ]
        )

    def operation(self, is_cell=False):
        """One whose result may be kept, in a state, in a table, or to be read after all loops."""
        choose = self.choose
        name = choose.choice(TWO * 2 + ONE)
        operands = [self.operand() for _ in range(2 if name in TWO else 1)]
        bounded = name in ("add", "subtract", "multiply", "square") and choose.random() < 0.5
        state = choose.randrange(len(self.states)) if choose.random() < 0.3 else None
        table = choose.choice(self.tables)[0] if is_cell else None
        often = choose.choice([1, 2, 5]) if choose.random() < 0.1 else 0

        def run(counters, local):
            x = self.trace.call(name, *[read(counters, local) for read in operands])
            x = self.trace.call("sin", x) if bounded else x
            local.append(x)
            self.left -= 2
            if state is not None:
                self.states[state] = x
            if table is not None and counters:
                table[(0, 0, *counters)[-2:]] = x
            if often and sum(counters) % often == 0:
                self.seen.append(x)

        return run

    def begun_anew(self):
        state, value = self.choose.randrange(len(self.states)), self.number()

        def run(counters, local):
            self.states[state] = value

        return run

    def body(self, depth):
        choose = self.choose
        if not depth:
            steps = [self.operation() for _ in range(choose.randint(0, 4))]
            return [*steps, self.operation(is_cell=True)]
        makers = [self.operation, self.begun_anew, lambda: self.loop(depth)]
        steps = [choose.choice(makers)() for _ in range(choose.randint(0, 2))]
        return [*steps, self.loop(depth)]

    def loop(self, depth):
        """Of all counts, or of as many as the loop around has made."""
        body = self.body(depth - 1)
        count = self.choose.choice(self.counts if depth == 1 else [4, 6])
        shape = self.choose.choice(["full"] * 14 + ["triangle", "falling"])

        def run(counters, local):
            around = counters[-1] if counters else 0
            times = {"full": count, "triangle": around + 1, "falling": count - around}[shape]
            for k in range(times):
                inside = local[-2:]
                for step in body:
                    if self.left > 0:
                        step((*counters, k), inside)

        return run

    def program(self):
        for depth in self.choose.choices([1, 2, 2, 3], k=self.choose.randint(1, 2)):
            self.loop(depth)((), [])
        cells = [
            x for table, _ in self.tables for x in [*table.values()][-self.choose.randint(0, 9) :]
        ]
        outputs = [x for x in (*self.states, *cells, *self.seen) if is_result(x)]
        return self.trace.program(*outputs) if outputs else None


def is_result(x):
    return isinstance(x, Number) and x.kind == "result"
