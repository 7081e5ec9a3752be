"""Statements that compute operations of the table, for every generator of code."""

import dataclasses

import numpy as np
import pytest

from tapegrad._core.ops.elementwise_text import ElementwiseText, renamed
from tapegrad._core.ops.table import TABLE

#: x · sin(cos y) + y: the partial derivatives share the first step.
OP = dataclasses.replace(
    TABLE["sin"],
    inputs=("x", "y", "z"),
    value="x * s1 + y",
    partials=("s1", "1.0 - x * np.cos(s0) * np.sin(y)", "0.0"),
    steps=(("s0", "np.cos(y)"), ("s1", "np.sin(s0)")),
)
#: The larger of two numbers, and a difference.
CHOOSING = dataclasses.replace(
    OP, inputs=("x", "y"), partials=("select(x > y, 1.0 / x, 0.0)", "-1.0"), steps=()
)
NAMES = {"x": "v3", "y": "V[2]", "out": "v7"}
RULES = {"select": np.where, "np": np, "x": np.float64(0.0), "y": np.float64(-1.0)}


def test_names_after_a_dot_and_others_stay():
    found = renamed("np.x(x, y2) + 1e5 * x", {"x": "V[1]", "np": None, "e5": "no"}.get)
    assert found == "np.x(V[1], y2) + 1e5 * V[1]"


def test_steps_are_written_once_before_what_reads_them():
    lines = []
    text = ElementwiseText(OP, lines.append, NAMES.get, "{}_7")
    assert text.slopes((1,)) == {1: "1.0 - v3 * np.cos(s0_7) * np.sin(V[2])"}
    assert lines == ["s0_7 = np.cos(V[2])"]
    assert text.value() == "v3 * s1_7 + V[2]"
    assert text.slopes(range(3)) == {0: "s1_7", 1: "1.0 - v3 * np.cos(s0_7) * np.sin(V[2])"}
    assert lines == ["s0_7 = np.cos(V[2])", "s1_7 = np.sin(s0_7)"]


def test_places_may_write_lines_of_their_own():
    lines = []

    def place(name):
        if name == "y":
            lines.append("b = load()")
        return {"y": "b"}.get(name)

    assert ElementwiseText(OP, lines.append, place).slopes((0,)) == {0: "s1"}
    assert lines == ["b = load()", "s0 = np.cos(b)", "s1 = np.sin(s0)"]


@pytest.mark.parametrize(
    ("g", "nonzero", "wanted"),
    [
        (0.0, False, [0.0, -0.0]),  # of 0 times infinity
        (0.0, True, [np.nan, -0.0]),
        (2.0, False, [np.inf, -2.0]),
        (-np.inf, True, [-np.inf, np.inf]),
    ],
)
def test_an_adjoint_of_0_passes_on_0(g, nonzero, wanted):
    parts = ElementwiseText(CHOOSING, pytest.fail).adjoint("g", (0, 1), nonzero)
    with np.errstate(all="ignore"):
        found = [eval(parts[j], {**RULES, "g": np.float64(g)}) for j in (0, 1)]
    np.testing.assert_array_equal(found, wanted)


def test_a_branch_of_0_passes_on_0_whatever_the_adjoint_is():
    parts = ElementwiseText(CHOOSING, pytest.fail).adjoint("g", (0,))
    assert eval(parts[0], {**RULES, "y": 1.0, "x": np.float64(0.5), "g": np.inf}) == 0.0


@pytest.mark.parametrize(("t0", "wanted"), [(0.0, -3.0), (2.0, np.inf)])
def test_a_tangent_of_0_gives_0(t0, wanted):
    lines = []
    total = ElementwiseText(CHOOSING, lines.append).tangent({0: "t0", 1: "t1"})
    scope = {**RULES, "t0": np.float64(t0), "t1": np.float64(3.0)}
    with np.errstate(all="ignore"):
        exec("\n".join(lines), scope)
        assert eval(total, scope) == wanted


def test_what_declarations_say_of_partial_derivatives():
    assert (OP.sloping, OP.signs) == ((0, 1), (0, 0, 0))
    assert (CHOOSING.sloping, CHOOSING.signs) == ((0, 1), (0, -1))
    assert (TABLE["subtract"].signs, TABLE["floor"].sloping) == ((1, -1), ())
    assert OP.read_by((0,)) == {"y"} and OP.read_by((0, 1)) == {"x", "y"}
