"""Small arrays made numbers: native programs of loops over them are one compiled loop."""

import re

import numpy as np
import pytest
import random_programs
from compiled import programs, same
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from passed_programs import evaluated

import tapegrad as tg
from tapegrad._program.build import scalarization
from tapegrad._program.build.scalarization import spread
from tapegrad._program.files.encode import check
from tapegrad._program.ir.scalars_step import Scalars

STEPS = 40
SEEN = np.sin(np.arange(STEPS) * 0.7)
ORDER = np.array([2, 0, 1])


def filtered(p):
    """A Kalman filter: products of 3 × 3 matrices, and the log-likelihood."""
    advance = np.array([[1.0, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.0, 0.9]])
    x, cov, noise, total = np.zeros(3), np.eye(3), np.diag([0.01, 0.1, 0.2]), 0.0
    for seen in SEEN:
        x, cov = advance @ x, advance @ cov @ advance.T + p[0] * noise
        spread_, error = cov[0, 0] + p[1], seen - x[0]
        gain = cov[:, 0] / spread_
        x, cov = x + gain * error, cov - np.outer(gain, cov[0])
        total = total + np.log(spread_) + error * error / spread_
    return total


def turned(p):
    """Rotations of a vector in three dimensions: einsum, gathers, sums along axes, joins."""
    v = p[:3] + 0.0
    for k in range(STEPS):
        w = np.stack([v[ORDER], v * 0.5, np.array([0.1, 0.2, 0.3]) * p[0]])
        v = v + 0.01 * np.einsum("ij,j->i", w, v) - 0.02 * w.sum(0) + 0.01 * (w * w).sum()
        v = np.concatenate([v[1:], v[:1]]) * (1.0 + 0.001 * SEEN[k])
    return (v * v).sum()


def chosen(p):
    """Operations of three operands, powers, functions, comparisons."""
    v = p[:4] * 1.0
    for k in range(STEPS):
        u = np.where(v > 0.1, np.tanh(v), v * 0.9)
        v = np.clip(u + 0.1 * np.outer(u, u)[1], -2.0, 2.0) + 0.05 * np.cos(p[:4] * k)
    return (v[::-1] * p[:4]).sum()


def with_zeros(p):
    """Arrays of which some elements are never written, and writes of cells."""
    total = 0.0
    for k in range(STEPS):
        a = tg.zeros((3, 3))
        a[0, 1] = p[0] * (k + 1.0)
        a[2] = p[1:4]
        total = total + (a @ a).sum() - (a.T * a)[1].sum()
    return total


def branching(p):
    """A guard in every iteration."""
    m, turn = np.outer(p[:3], p[1:4]), np.array([[1.01, 0.01, 0], [0, 1.0, 0.02], [0.01, 0, 1.0]])
    for _ in range(STEPS):
        m = m * 0.5 if m[0, 0] > 5.0 else turn @ m
    return m.sum()


def with_more(p):
    """What is large stays arrays; the program has results of both kinds."""
    v, w = p[:3] * 1.0, np.linspace(0.0, 1.0, 50) * p[4]
    for k in range(STEPS):
        v = v * 0.99 + 0.01 * (np.outer(v[ORDER], p[:3]) @ v) * np.sin(p[3] * k)
    return tg.logsumexp(w + v.sum()) * v[0]


FUNCTIONS = [filtered, turned, chosen, with_zeros, branching, with_more]
P = np.array([0.5, 0.2, 0.3, -0.4, 0.7])


def compiled(f, p=P):
    c = tg.compile(f, native=True, verify="never")
    for _ in range(2):
        c.value_and_grad(p)
    c.wait()
    return c


@pytest.mark.parametrize("f", FUNCTIONS)
def test_loops_over_small_arrays(f):
    c = compiled(f)
    for scale in (1.0, 0.8, 1.1):
        same(c.value_and_grad(P * scale), tg.value_and_grad(f)(P * scale))
    (family,) = c._families.found.values()
    program = family.found[0].program
    assert programs(c) == 1 and program.native
    operations = sum(len(step.op) for step in program.code.steps if isinstance(step, Scalars))
    assert len(program.code.steps) <= 8 < STEPS <= len(program.source.steps)
    assert operations > STEPS
    assert max(map(int, re.findall(r"loop of (\d+) x", c.explain()))) >= STEPS - 3


@pytest.mark.usefixtures("unlimited")
def test_a_guard_that_fails_is_named_and_recorded():
    c = compiled(branching)
    other = P * 9.0
    same(c.value_and_grad(other), tg.value_and_grad(branching)(other))
    assert programs(c) == 2
    same(c.value_and_grad(P), tg.value_and_grad(branching)(P))
    stopping = tg.compile(branching, native=True, on_branch="error")
    stopping.value_and_grad(P)
    stopping.wait()
    with pytest.raises(RuntimeError, match="takes another branch at .*test_program_spreading"):
        stopping.value_and_grad(other)


def test_files_hold_what_was_recorded(tmp_path):
    interpreted = tg.compile(filtered, verify="never")
    for _ in range(2):
        interpreted.value_and_grad(P)
    native = compiled(filtered)
    interpreted.save(tmp_path / "one")
    native.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_few_steps_and_large_arrays_stay_as_they_are():
    few = compiled(lambda p: (np.outer(p, p) @ p).sum())
    large = compiled(lambda p: sum((np.linspace(0.0, 1.0, 30) * p[k % 5]).sum() for k in range(60)))
    for c in (few, large):
        program = next(iter(c._families.found.values())).found[0].program
        assert program.native and program.code is program.source


@settings(max_examples=rounds(60, 20))
@given(random_programs.programs(True, 12), st.sampled_from([6, 12]), st.integers(0, 50))
def test_random_programs(program, n, seed):
    """Whatever the steps: spread where that would not pay, too."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, n)
    f = lambda x, y: random_programs.element_of(program, x, y, random_programs.DYADIC)
    c = tg.compile(f, argnums=(0, 1), verify="never")
    c.value_and_grad(x, y)
    c.value_and_grad(x, y)
    families = [family for family in c._families.found.values() if family.found]
    if c._reason is not None or not families:
        return
    code = families[0].found[0].program.source
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEAST", "NEARLY", "MOSTLY"):
            patch.setattr(scalarization, name, 0)
        made = spread(code)
    check(made)
    for scale in (1.0, 1.25):
        results, gradients = evaluated(code, x * scale, y * scale)
        again, found = evaluated(made, x * scale, y * scale)
        if gradients is None:  # a guard failed
            assert found is None
            continue
        for a, b in zip([*again, *found], [*results, *gradients], strict=True):
            np.testing.assert_array_equal(a, b)
