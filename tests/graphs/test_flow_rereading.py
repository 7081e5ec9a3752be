"""A function that is read again, for other arguments: what is known already is not found anew."""

import warnings

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg
from tapegrad._flow.ir.flow_graph import Value
from tapegrad._flow.kinds.step_kinds import FLOAT, INT
from tapegrad._flow.reading import forms, joins, readings
from tapegrad._program.dispatch import flow_choice


@pytest.fixture
def counted(monkeypatch):
    """How often the code of functions is followed from its start."""
    counted, original = [], readings._read

    def counting(*args):
        counted.append(args)
        return original(*args)

    monkeypatch.setattr(readings, "_read", counting)
    return counted


@needs("numba-reader")
def test_lists_that_one_reading_puts_into_the_arena_are_there_in_the_next(counted):
    def f(p, x):
        found = []
        for v in x:
            if v > p:
                found.append(v * p)
            else:
                found.append(p)
        return sum(found)

    c = tg.compile(f)
    for p in (0.0, 1.0, -1.0):
        c.value_and_grad(p, np.array([0.5, -0.5, 2.0]))
    first = len(counted)
    assert first > 1  # a list of known length at first
    x = np.array([0.3, 0.7, -2.0])
    value, tangent = c.jvp((0.4, x), (1.0, np.ones(3)))
    assert len(counted) == first + 1
    assert (value, tangent) == pytest.approx(tg.jvp(f, (0.4, x), (1.0, np.ones(3))))


def test_no_more_lengths_are_read_after_refusals(monkeypatch):
    tried, original = [], flow_choice.flow_for

    def trying(f, arguments, exact, choices):
        tried.append(exact)
        return original(f, arguments, exact, choices)

    monkeypatch.setattr(flow_choice, "flow_for", trying)

    def f(p, x):
        with np.errstate(all="ignore"):
            return p * np.sum(x) if p > 0 else -p

    c = tg.compile(f)
    for n in range(1, 8):
        for p in (1.0, -1.0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # that it runs eagerly
                assert c.grad(p, np.ones(n)) == (n if p > 0 else -1.0)
    assert sorted(tried) == [False, True, True]


@needs("numba-reader")
def test_a_lost_derivative_is_refused_for_all_lengths_at_once(monkeypatch, not_entered):
    tried, original = [], flow_choice.flow_for

    def trying(f, arguments, exact, choices):
        tried.append(exact)
        return original(f, arguments, exact, choices)

    def f(p, x):
        scale = float(x[0])
        return p * scale if p > 0 else -p

    c = tg.compile(f)
    for n, p in ((1, 1.0), (2, -1.0), (3, 2.0)):
        assert c.grad(p, np.full(n, 3.0)) == (3.0 if p > 0 else -1.0)
    assert c._flows.found
    monkeypatch.setattr(flow_choice, "flow_for", trying)
    for n in (1, 2, 3):
        with pytest.raises(TypeError, match="float"):
            c.jvp((1.0, np.ones(n)), (1.0, np.ones(n)))
    assert tried == [False]


def forms_with_numbers():
    number = forms.Number(FLOAT, None, tensor=True)
    count = forms.Number(INT, None, natural=True)
    array = forms.Array(count, (count, forms.Known(3)), (forms.Known(3), forms.Known(1)), 0)
    yield number
    yield array
    yield forms.Tuple((number, forms.Known(2.0), array))
    yield forms.Maybe(forms.Number("b", None), number)
    yield forms.Contents("list", (), (number, forms.Tuple((count, number))))


@pytest.mark.parametrize("form", [*forms_with_numbers()])
def test_what_a_block_passes_on_is_known_by_identity(form):
    kinds = forms.kinds_of(form)
    assert kinds == tuple(one.kind for one in forms.numbers(form))
    values = [Value(kind, k) for k, kind in enumerate(kinds)]
    given = forms.bound(form, iter(values))
    assert [one.value for one in forms.numbers(given)] == values
    assert forms.unbound(given) is form and forms.unbound(form) is form
    assert joins.joined(form, given, None) is form
    other = forms.bound(form, iter(values))
    assert other is not given and forms.unbound(other) is form
