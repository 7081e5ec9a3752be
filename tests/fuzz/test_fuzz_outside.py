"""Random programs that read data from outside, of fixed seeds; see fuzz_outside.py."""

import warnings

import fuzz_outside
import numpy as np
import pytest
import random_outside
from assumed import needs
from extent import rounds

PROGRAMS, NATIVE, AT_ONCE = rounds(9, 4), 1, 1


@needs("numba-reader")
@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_programs(first):
    """Values and derivatives, after changes between calls, and what files give."""
    for seed in range(first, first + AT_ONCE):
        _, wrong = fuzz_outside.check(seed, native=seed < NATIVE)
        for text in wrong:
            pytest.fail(f"{text}\n\n{random_outside.program(seed).text}", pytrace=False)


def test_programs_are_of_all_kinds():
    programs = [random_outside.program(seed) for seed in range(100)]
    assert {way for one in programs for way in one.ways} == {*random_outside.WAYS}
    assert {one.reads for one in programs} == {True, False}
    assert random_outside.program(3) == random_outside.program(3)


@pytest.mark.parametrize("way", random_outside.WAYS)
def test_texts_run(way):
    """Each text of the grammar: else nothing would be compared."""
    one = random_outside.WAYS[way]
    operands = {name: "p" for name in "abcx"} | {"k": "p > 0", "j": 1, "v": 0.7}
    texts = [f"z = {text}" for text in [*one.expressions, *one.conditions, *one.reads]]
    texts += [f"{text}\n    z = 1.0" for text in one.loops] + [*one.changes, *one.effects]
    for text in texts:
        head = "n, i, mode, kept, z = 1, 0, 'e', [p, q], 0.0\ncells = np.zeros(3)\n"
        body = head + text.format(**operands)
        names = random_outside.names_of(one)
        made = random_outside.assigning("f", "p, q, d, m", body, names, "global")
        scope = {"np": np, "__name__": "random_outside"}
        exec(f"{random_outside.CLASSES}\n{one.data}\n{made}", scope)
        scope["f"](0.3, -0.4, np.ones(5), np.ones((2, 3)))


def test_a_change_that_is_not_seen_is_found(monkeypatch):
    """The own world stays as it is while the other one changes."""
    real = fuzz_outside.World

    class Still(real):
        count = 0

        def __init__(self, seed, plain=False):
            super().__init__(seed, plain)
            Still.count += 1
            if Still.count % 2:
                self.changes = [lambda: None] * len(self.changes)

    monkeypatch.setattr(fuzz_outside, "World", Still)
    seeds = [s for s in range(60) if random_outside.program(s).ways == ("object",)][:4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert any(fuzz_outside.check(seed, False)[1] for seed in seeds)
