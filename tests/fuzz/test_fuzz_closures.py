"""Random functions made anew of one code, of fixed seeds; see fuzz_closures.py."""

import fuzz_closures
import pytest
import random_closures
from assumed import needs
from closure_data import KINDS

from tapegrad._flow.reading import readings

SEQUENCES, AT_ONCE = 24, 8


@needs("numba-reader")
@pytest.mark.parametrize("first", range(0, SEQUENCES, AT_ONCE))
def test_sequences(first):
    """Values and derivatives, by the graphs of other functions and by their own."""
    found = 0
    for seed in range(first, first + AT_ONCE):
        counts, wrong = fuzz_closures.check(seed, native=False)
        found += counts["functions with a graph of others"]
        for text in wrong:
            pytest.fail(f"{text}\n\n{random_closures.Sequence(seed).text}", pytrace=False)
    assert found


def test_sequences_are_of_all_kinds():
    sequences = [random_closures.Sequence(seed) for seed in range(100)]
    assert {kind for one in sequences for kind in one.kinds} == {*KINDS}
    assert {one.way for one in sequences} == {*random_closures.WAYS}
    assert random_closures.Sequence(3).text == sequences[3].text


@needs("numba-reader")
def test_a_graph_of_other_data_is_found(monkeypatch):
    monkeypatch.setattr(readings, "_is_alike", lambda a, b: True)
    assert any(fuzz_closures.check(seed, False)[1] for seed in range(40))
