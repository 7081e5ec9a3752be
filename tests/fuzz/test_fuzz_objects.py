"""Random programs that use data as objects of Python, of fixed seeds; see fuzz_objects.py."""

import ast

import fuzz_objects
import numpy as np
import pytest
import random_objects
from extent import rounds

PROGRAMS, NATIVE, AT_ONCE = rounds(20, 8), 2, 4


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_programs(first):
    """Values, gradients, errors, in every way."""
    for seed in range(first, first + AT_ONCE):
        _, wrong = fuzz_objects.check(seed, native=seed < NATIVE)
        for text, script in wrong:
            pytest.fail(f"seed {seed}, {text}\n\n{script}", pytrace=False)


def test_programs_are_of_all_kinds():
    found = {kind for seed in range(3 * PROGRAMS) for kind in random_objects.kinds(seed)}
    assert found == {*random_objects.STATEMENTS}
    for seed in range(10):
        assert random_objects.source(seed) == random_objects.source(seed)


@pytest.mark.parametrize("kind", random_objects.STATEMENTS)
def test_statements_run(kind):
    """Each at some of the points: else nothing would be compared."""
    for statement in random_objects.STATEMENTS[kind]:
        ast.parse(statement)
        lines = ["s = np.sum(x * x) * 0.5", *statement.split("\n"), "return s"]
        text = "\n".join(["def f(x, d, e, t, k, a, b, **names):", *[f"    {x}" for x in lines]])
        outcomes = []
        for number in range(40):
            world = fuzz_objects.World(0)
            exec(text, world.names)
            args, names = random_objects.arguments(number, number % 4)
            outcomes.append(fuzz_objects.outcome(world.names["f"], args, names)[0])
        assert "value" in outcomes, statement


def test_a_wrong_value_is_found(monkeypatch):
    """An order of names that is forgotten."""
    real = fuzz_objects.World

    class Sorted(real):
        def __init__(self, seed):
            super().__init__(seed)
            self.f = lambda *args, f=self.f, **names: f(*args, **dict(sorted(names.items())))

    seeds = [seed for seed in range(300) if "names" in random_objects.kinds(seed)][:8]
    wanted = {seed: fuzz_objects.right(seed) for seed in seeds}
    monkeypatch.setattr(fuzz_objects, "right", wanted.get)
    monkeypatch.setattr(fuzz_objects, "World", Sorted)
    assert any(fuzz_objects.check(seed)[1] for seed in seeds)


def test_scripts_run(monkeypatch, capsys):
    """That of a finding shows the calls up to it."""
    monkeypatch.setattr(fuzz_objects, "said", lambda *given: "a value")
    _, wrong = fuzz_objects.check(7)
    script = next(script for text, script in wrong if text.startswith("compiled value, call"))
    exec(compile(script, "<script>", "exec"), {"__name__": "script"})
    assert capsys.readouterr().out.startswith("0 ")


def test_known_outcomes():
    def expected(kind, *rest):
        return fuzz_objects.Right((kind, *rest, None), (kind, *rest, None), np.array([1.0]))

    judge = fuzz_objects.said
    number, error = expected("value", 2.0), expected("error", ZeroDivisionError, "division")
    assert judge(("value", 2.0, np.array([1.0])), number, True) == ""
    assert judge(("value", 2.0, np.array([1.1])), number, True).startswith("gradient")
    assert judge(("value", 2.1, None), number, False).startswith("value")
    assert judge(("value", np.inf, None), error, False).startswith("inf, right is ZeroDivision")
    assert judge(("error", ZeroDivisionError, "x"), error, False) == ""
    assert judge(("error", TypeError, "tapegrad: no"), number, False) == "refused"
    assert "right is" in judge(("error", TypeError, "no"), number, False)
    untrue = "tapegrad.compile: f replayed gives 1, called again 2"
    assert "right is" in judge(("error", RuntimeError, untrue), number, False)
