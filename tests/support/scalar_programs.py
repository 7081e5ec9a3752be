"""Steps of operations on numbers, recorded by a tracer and judged one operation at a time."""

import numpy as np
import rows
from program_parts import call

from tapegrad._core.ops.table import BY_CODE, TABLE, product
from tapegrad._program.ir.scalars_step import Scalars
from tapegrad._program.ir.steps import GUARD
from tapegrad._program.native.loop_finding import Slots
from tapegrad._program.native.scalar_code import native, pieces_of
from tapegrad._program.replay.parts import Run
from tapegrad._program.replay.run_layout import FINISHED, RUN_FAILED


def numbers(n, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, n)


def summary(compiled):
    """What the parts of a program do."""
    return "; ".join(part.note for part in compiled.parts)


class Number:
    """A number of a trace: its slot's kind and place there."""

    def __init__(self, trace, kind, place):
        self.trace, self.kind, self.place = trace, kind, place

    def __add__(self, other):
        return self.trace.call("add", self, other)

    def __radd__(self, other):
        return self.trace.call("add", other, self)

    def __sub__(self, other):
        return self.trace.call("subtract", self, other)

    def __rsub__(self, other):
        return self.trace.call("subtract", other, self)

    def __mul__(self, other):
        return self.trace.call("multiply", self, other)

    def __rmul__(self, other):
        return self.trace.call("multiply", other, self)

    def __truediv__(self, other):
        return self.trace.call("divide", self, other)

    def __neg__(self):
        return self.trace.call("negative", self)


class Trace:
    """Records operations on numbers; slot 0 belongs to nobody, then come inputs, then constants."""

    def __init__(self, inputs):
        self.inputs = [Number(self, "input", k) for k in range(len(inputs))]
        self.values = np.array(inputs, float)
        self.constants, self.rows = {}, []

    def constant(self, value):
        key = np.float64(value).tobytes()
        place = self.constants.setdefault(key, (len(self.constants), value))[0]
        return Number(self, "constant", place)

    def call(self, name, *operands):
        numbers = [x if isinstance(x, Number) else self.constant(x) for x in operands]
        self.rows.append((TABLE[name].code if name else GUARD, numbers))
        return Number(self, "result", len(self.rows) - 1)

    def guard(self, x, y):
        self.call("", x, y)

    def program(self, *outputs, frozen=()):
        return Program(self, outputs, frozen)


class Program:
    """A step, what is known of its slots, and its values and adjoints computed naively.

    `frozen` inputs are not differentiated.
    """

    def __init__(self, trace, outputs, frozen=()):
        self.trace, inputs, constants = trace, len(trace.inputs), len(trace.constants)
        self.first = 1 + inputs + constants
        self.starts = {"input": 1, "constant": 1 + inputs, "result": self.first}
        n = len(trace.rows)
        columns = np.full((3, n), -1, np.int32)
        for k, (_, numbers) in enumerate(trace.rows):
            columns[: len(numbers), k] = [self.slot(x) for x in numbers]
        codes = np.array([code for code, _ in trace.rows], np.int32)
        c = columns[2] if (columns[2] >= 0).any() else columns[2][:0]
        self.step = Scalars(self.first, codes, columns[0], columns[1], c)
        self.initial = np.zeros(self.first + n)
        self.initial[1 : 1 + inputs] = trace.values
        for place, value in trace.constants.values():
            self.initial[1 + inputs + place] = value
        self.known = np.zeros(self.first + n, bool)
        self.known[1 + inputs : self.first] = True
        self.outputs = [self.slot(x) for x in outputs]
        self.outside = np.zeros(n, bool)
        self.outside[[slot - self.first for slot in self.outputs if slot >= self.first]] = True
        self.wanted = self.depends({self.slot(trace.inputs[k]) for k in frozen})

    def slot(self, number):
        return self.starts[number.kind] + number.place

    def depends(self, frozen):
        """Which slots depend on a differentiated input."""
        wanted = np.zeros(len(self.initial), bool)
        for number in self.trace.inputs:
            wanted[self.slot(number)] = self.slot(number) not in frozen
        for k, (code, numbers) in enumerate(self.trace.rows):
            if code != GUARD:
                wanted[self.first + k] = any(wanted[self.slot(x)] for x in numbers)
        return wanted

    def operations(self):
        for k, (code, numbers) in enumerate(self.trace.rows):
            if code != GUARD:
                yield self.first + k, BY_CODE[code], [self.slot(x) for x in numbers]

    def naive(self, seeds):
        """Values of all slots, and adjoints of all for adjoints of the outputs."""
        values, adjoints = self.initial.copy(), np.zeros(len(self.initial))
        for slot, op, operands in self.operations():
            values[slot] = rows.expression(op, op.value, values[operands], np.float64(0.0))
        np.add.at(adjoints, self.outputs, seeds)
        for slot, op, operands in reversed(list(self.operations())):
            g = adjoints[slot]
            for operand, text in zip(operands, op.partials, strict=True):
                if g != 0.0 and text != "0.0" and self.wanted[operand]:
                    text = product("g", text)
                    part = rows.expression(op, text, values[operands], values[slot], g=g)
                    with np.errstate(all="ignore"):
                        adjoints[operand] += part
        return values, adjoints


class Compiled:
    """The parts of a program with the memory of one run."""

    def __init__(self, program):
        self.program, self.slots = program, len(program.initial)
        p, given = program, Slots(program.known, program.initial, program.wanted)
        pieces = pieces_of(p.step, p.known)
        self.parts = native(p.step, pieces, given, p.outside, self.new_slots)
        self.run = Run(self.slots)

    def new_slots(self, count):
        self.slots += count
        return self.slots - count

    @property
    def kept(self):
        """Slots of the arena that the parts have asked for."""
        return self.slots - len(self.program.initial)

    def forward(self, inputs=None, ahead=False):
        """Values of the outputs; `ahead` as before a reverse pass in a plan of both."""
        p, run = self.program, self.run
        run.values[:] = np.nan
        run.values[: p.first] = p.initial[: p.first]
        if inputs is not None:
            run.values[1 : 1 + len(inputs)] = inputs
        for part in self.parts:
            function = ahead and part.ahead or part.forward
            if status := call(function, run, part.data):
                return status, int(run.words[RUN_FAILED // 8])
        return FINISHED, run.values[p.outputs]

    def reverse(self, seeds):
        p, run = self.program, self.run
        run.adjoints[:] = 0.0
        np.add.at(run.adjoints, p.outputs, seeds)
        for part in reversed(self.parts):
            assert call(part.reverse, run, part.data) == FINISHED
        return run.adjoints[1 : 1 + len(p.trace.inputs)]


def check(program, exact=True):
    """Compare values and gradients of compiled parts with the naive ones; returns the parts."""
    compiled = Compiled(program)
    seeds = np.linspace(0.5, 1.5, len(program.outputs))
    values, adjoints = program.naive(seeds)
    wanted = adjoints[1 : 1 + len(program.trace.inputs)]
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    for ahead in (True, False):
        status, found = compiled.forward(ahead=ahead)
        assert status == FINISHED
        if exact:
            np.testing.assert_array_equal(found, values[program.outputs])
        else:
            close = values[program.outputs]
            largest = np.abs(close[np.isfinite(close)]).max(initial=0.0)
            np.testing.assert_allclose(found, close, rtol=1e-12, atol=1e-13 * largest)
        gradient = compiled.reverse(seeds)
        # what is added to an adjoint and taken from it again, in another order, leaves rounding
        atol = 1e-12 * scale + 1e-15
        np.testing.assert_allclose(gradient, wanted, rtol=1e-10, atol=atol)
    return compiled
