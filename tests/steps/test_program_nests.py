"""Native code of random nests of loops, run as Python, against the same operations interpreted."""

import os

import numpy as np
import pytest
from extent import rounds
from loop_nests import INPUTS, Nest
from written_code import WrittenCode

from tapegrad._program.native import loop_code, scalar_code, simd_loops
from tapegrad._program.native.loop_finding import Slots
from tapegrad._program.replay.parts import Run
from tapegrad._program.replay.run_layout import FINISHED
from tapegrad._program.replay.scalar_interpreter import interpreted

#: Nests of each kind; see CONTRIBUTING.md.
NESTS = int(os.environ.get("TAPEGRAD_PROGRAMS", rounds(300, 100))) // 25


@pytest.fixture
def code(monkeypatch):
    made = WrittenCode()
    monkeypatch.setattr(scalar_code, "compile_source", made.compile)
    return made


@pytest.fixture(params=["kept", "in lanes", "cut"])
def cut(request, monkeypatch):
    """Loops whose results are kept; that are done in short lanes; of which blocks are kept."""
    if request.param == "in lanes":
        for name in ("FEWEST", "BODY", "MANY"):
            monkeypatch.setattr(simd_loops, name, 2)
        for module in (simd_loops, simd_loops):
            monkeypatch.setattr(module, "BLOCK", 16)
    monkeypatch.setattr(loop_code, "LONG", 8)
    return request.param == "cut"


def evaluated(program, call, parts, slots, inputs, ahead):
    """Outputs, and adjoints of the inputs."""
    run = Run(slots)
    run.values[:] = np.nan
    run.values[: program.first] = program.initial[: program.first]
    run.values[1 : 1 + INPUTS] = inputs
    for part in parts:
        function = ahead and part.ahead or part.forward
        assert call(function, run, part.data) == FINISHED
    np.add.at(run.adjoints, program.outputs, np.linspace(0.5, 1.5, len(program.outputs)))
    for part in reversed(parts):
        assert call(part.reverse, run, part.data) == FINISHED
    return run.values[program.outputs], run.adjoints[1 : 1 + INPUTS]


def check(p, code, cut, seed):
    slots = len(p.initial)

    def new_slots(count):
        nonlocal slots
        slots += count
        return slots - count

    plain = [interpreted(p.step)]
    pieces = scalar_code.pieces_of(p.step, p.known)
    given = Slots(p.known, p.initial, p.wanted), p.outside, new_slots, cut
    parts = scalar_code.native(p.step, pieces, *given)
    other = np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, INPUTS)
    for inputs in (p.trace.values, other):
        values, adjoints = evaluated(p, code.call, plain, len(p.initial), inputs, False)
        scale = np.abs(adjoints[np.isfinite(adjoints)]).max(initial=0.0)
        for ahead in (False, True):
            found, pulled = evaluated(p, code.call, parts, slots, inputs, ahead)
            np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(pulled, adjoints, rtol=1e-8, atol=1e-10 * scale + 1e-14)


def test_nests_of_loops(code, cut):
    """Of many or few iterations inside: short ones are unrolled."""
    for seed in range(20, 20 + NESTS):
        p = Nest(seed, [7, 60, 100] if seed % 2 else [90, 130, 300]).program()
        if p is not None:
            with np.errstate(all="ignore"):  # around tables are infinities
                check(p, code, cut, seed)
