"""Long loops over arrays: few iterations are converted, and the program continued."""

import os

import numpy as np
import pytest
from random_iterations import loop

import tapegrad as tg
import tapegrad.numpy as stand_in
from tapegrad._program.dispatch.signature import Arguments
from tapegrad._program.dispatch.variants import traced_call
from tapegrad._program.lowering import repetition
from tapegrad._program.passes import pipeline

TIMES, N = 60, 12
RNG = np.random.default_rng(8)
DATA = RNG.standard_normal((TIMES, N))
NUMBERS = RNG.standard_normal(TIMES)
ONES, ZEROS, MASKS = np.ones((TIMES, N)), np.zeros((TIMES, N)), np.ones((TIMES, N), bool)
ONES[31], ZEROS[29], MASKS[33, 2] = 0.5, 1.5, False
FACTORS = np.ones(TIMES)
FACTORS[30] = 0.3
PLACES = [RNG.permutation(N)] * TIMES
OTHERS = [places.copy() for places in PLACES]
OTHERS[35] = PLACES[0][::-1].copy()
WEIGHTS = 0.2 * RNG.standard_normal((N, N))
SHIFTS = [1] * TIMES
SHIFTS[34] = 2


def made(body, end="np.sum(s * u)", before="pass"):
    """A function of an array with a loop: s and u are states, v a number, seen a list."""
    lines = ["s, u, v, seen = np.sin(x), np.cos(x), 0.0, []", before, "for i in range(TIMES):"]
    lines += [f"    {line}" for line in (*body.split("; "), "u = np.tanh(u + 0.1 * s)")]
    text = "def f(x):\n" + "".join(f"    {line}\n" for line in (*lines, f"return {end}"))
    names = {**globals(), "np": stand_in}
    exec(text, names)
    return names["f"]


#: Loops whose iterations are alike, by what is in them.
ALIKE = {
    "steps": made("s = 0.9 * s + 0.1 * np.sin(s) * u"),
    "data": made("s = np.tanh(WEIGHTS @ s + DATA[i])"),
    "numbers": made("v = (v + s[0]) * NUMBERS[i]; s = 0.9 * s + 0.01 * v"),
    "zeros but for one": made("s = 0.9 * s + ZEROS[i] * u; s = s - ZEROS[i]"),
    "ones but for one": made("s = 0.9 * s * ONES[i] / ONES[i]; s = s + 0.1 * DATA[i]"),
    "masks": made("s = np.where(MASKS[i], 0.9 * s, u)"),
    "factors": made("s = s * FACTORS[i] + 0.1; s = s / FACTORS[i]"),
    "positions": made("s = 0.9 * s[PLACES[i].copy()]"),
    "joins": made("s = 0.9 * np.roll(s, 2) + 0.1 * np.pad(s[1:], (0, 1), constant_values=2.0)"),
    "writes": made("z = np.zeros(N); z[2:] = 0.5 * s[2:]; z[0] = u[1]; s = 0.5 * s + z"),
    "filled": made("z = np.full(N, FACTORS[i]); z[2:] = 0.5 * s[2:]; s = 0.5 * s + z"),
    "a buffer": made("b[3:9] = 0.5 * s[3:9] + 0.2 * b[2:8]; s = 0.9 * s + b", before="b = x * 1.0"),
    "cells": made("s = 0.9 * s + 0.1 * u; s[3] = NUMBERS[i]"),
    "lags": made("seen.append(s); s = 0.9 * s + 0.2 * (seen[-5] if len(seen) > 5 else u)"),
    "the last": made("s = 0.9 * s + 0.1 * u; seen.append(s[0])", "np.sum(s) * seen[-1] * seen[-4]"),
    "invariants": made("s = 0.9 * s + 0.1 * np.exp(-x)"),
    "complex": made("z = np.exp(1j * s) * u; s = 0.5 * z.real + 0.2 * np.abs(z)"),
    "solutions": made("s = 0.5 * np.linalg.solve(np.eye(N) * 2.0 + 0.1 * np.outer(s, s), s)"),
    "sums aside": made("b[1:] = 0.5 * b[1:] + 0.1; s = 0.9 * s", "np.sum(b * s)", "b = x * 1.0"),
    "axes": made("a = 0.1 * np.outer(s, u); s = 0.9 * s + a.T.copy()[0] + 0.1 * a.max(1)"),
}
#: Loops of which every iteration is converted.
UNLIKE = {
    "all results": made("s = 0.9 * s + 0.1 * u; seen.append(s)", "np.sum(np.stack(seen) * u)"),
    "other shifts": made("s = 0.9 * np.roll(s, SHIFTS[i])"),
    "choices": made("v = np.where(s[1] > 0, 0.5 * v, FACTORS[i]); s = 0.9 * s + 0.1 * v * u"),
    "other positions": made("s = 0.9 * s[OTHERS[i]]"),
    "other edges": made("s = 0.9 * np.pad(s[1:], (0, 1), constant_values=NUMBERS[i])"),
    "rows": made("s = 0.9 * s + 0.1 * b[i]", before="b = np.outer(np.arange(1.0, TIMES + 1), x)"),
    "written rows": made(
        "b[i] = s; s = 0.9 * s", "np.sum(b * u)", before="b = np.zeros((TIMES, N))"
    ),
}


@pytest.fixture
def continued(monkeypatch):
    """Whether programs were continued, in order."""
    found, original = [], pipeline.continued

    def noted(code, short):
        made = original(code, short)
        found.append(made is not None)
        return made

    monkeypatch.setattr(pipeline, "continued", noted)
    monkeypatch.setattr(repetition, "MANY", 60)
    return found


def check(f, x, **options):
    """Compare a compiled function with the function, at what it was recorded with and elsewhere."""
    compiled = tg.compile(f, native=False, **options)
    for given in (x, x + 0.01, x):
        value, gradient = tg.value_and_grad(f)(given)
        found, adjoint = compiled.value_and_grad(given)
        np.testing.assert_allclose(found, value, rtol=1e-11, atol=1e-11)
        scale = np.abs(gradient).max()
        np.testing.assert_allclose(adjoint, gradient, rtol=1e-9, atol=1e-9 * max(scale, 1.0))


def converted(f, x):
    """The program of a function, and its account."""
    with traced_call(f, Arguments((x,), {}, (0,))) as traced:
        variant, reason = traced.program()
    assert reason is None
    return variant.program.code, variant.account


X = 0.5 * RNG.standard_normal(N)


@pytest.mark.parametrize("name", ALIKE)
def test_few_iterations_are_converted_where_all_are_alike(name, continued):
    check(ALIKE[name], X, verify="never")
    assert continued and continued[-1] or any(continued)


@pytest.mark.parametrize("name", UNLIKE)
def test_all_iterations_are_converted_where_some_differ(name, continued):
    check(UNLIKE[name], X, verify="never")
    assert not any(continued)


@pytest.mark.parametrize("name", ["data", "joins", "writes", "lags"])
def test_a_continued_program_has_the_steps_of_a_whole_one(name, continued, monkeypatch):
    code, account = converted(ALIKE[name], X)
    assert any(continued)
    monkeypatch.setattr(repetition, "MANY", 1 << 30)
    whole, expected = converted(ALIKE[name], X)
    assert [type(step) for step in code.steps] == [type(step) for step in whole.steps]
    assert code.slots <= whole.slots
    names = [name for name, _ in account.sizes]
    assert names == [name for name, _ in expected.sizes]
    for (_, size), (_, other) in zip(account.sizes, expected.sizes, strict=True):
        assert size[:3] == other[:3]


def test_a_continued_program_of_float32(continued):
    def f(x):
        s = stand_in.sin(x)
        for k in range(TIMES):
            s = 0.5 * stand_in.roll(s, 1) + 0.2 * data[k] * stand_in.cos(s)
        return (s * s).sum()

    data = DATA.astype(np.float32)
    x = X.astype(np.float32)
    compiled = tg.compile(f, native=False, verify="never")
    for given in (x, x, x + np.float32(0.01)):
        value, gradient = tg.value_and_grad(f)(given)
        found, adjoint = compiled.value_and_grad(given)
        assert adjoint.dtype == np.float32
        np.testing.assert_allclose(found, value, rtol=1e-4)
        np.testing.assert_allclose(adjoint, gradient, rtol=1e-3, atol=1e-5)
    assert any(continued)


def test_a_continued_program_is_saved_and_loaded(continued, tmp_path):
    f = ALIKE["data"]
    compiled = tg.compile(f, native=False)
    for given in (X, X):
        value, gradient = compiled.value_and_grad(given)
    assert any(continued)
    compiled.save(tmp_path / "program")
    found, adjoint = tg.load(tmp_path / "program").value_and_grad(X)
    assert found == value
    np.testing.assert_array_equal(adjoint, gradient)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TAPEGRAD_PROGRAMS", "60")) // 10))
def test_random_loops(seed, continued):
    f, text, x = loop(seed)
    with np.errstate(all="ignore"):
        value, gradient = tg.value_and_grad(f)(x)
        if np.isfinite(value) and np.isfinite(gradient).all():
            print(text)
            check(f, x, verify=["once", "never"][seed % 2])
