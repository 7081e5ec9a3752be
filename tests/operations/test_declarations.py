"""The derived tests of every declaration of whole arrays, and planted faults that they catch."""

import dataclasses

import declared
import numpy as np
import pytest
from declared import CHECKS, EXAMPLES, OPS, check_zero_size, example_of, point

import tapegrad as tg
from tapegrad._core.ops.table import TABLE

every_example = pytest.mark.parametrize(
    "name,text,shape", EXAMPLES, ids=[f"{name}: {text}" for name, text, _ in EXAMPLES]
)
ZERO_SIZES = {1: [(0,)], 2: [(0, 3), (3, 0), (0, 0)]}


@every_example
@pytest.mark.parametrize("check", CHECKS)
def test_declaration(check, name, text, shape, rng):
    op = TABLE[name]
    f = example_of(op, text)
    if name == "convert" and check in ("compiled", "within"):
        pytest.skip("programs compute in float64")
    CHECKS[check](op, f, point(op, shape, rng), rng)


@every_example
def test_zero_size(name, text, shape):
    check_zero_size(TABLE[name], example_of(TABLE[name], text), ZERO_SIZES[len(shape)])


def test_examples_record_their_operation(rng):
    for name, text, shape in EXAMPLES:
        op = TABLE[name]
        if not op.constant:  # these have rows in programs alone
            assert declared.sites(op, example_of(op, text), point(op, shape, rng)), (name, text)
    assert {name for name, _, _ in EXAMPLES} == {op.name for op in OPS}


# --- faults ---------------------------------------------------------------------------------------


def wrong_vjp(np, g, out, _x, axes):
    return (out * g,)


def wrong_jvp(np, t, out, _x, axes):
    return t[0] * out


def frozen_vjp(np, g, out, x, axes):
    """Looks at values where the trace does not see it."""
    tied = values(x) == values(out)
    return (g * (tied / tied.sum(axis=axes, keepdims=True)),)


def values(x):
    return x._array if hasattr(x, "_array") else np.asarray(getattr(x, "_value", x))


def narrow_vjp(np, g, out, _x, axes):
    """What it computes with on the way has no place in float32."""
    tiny = out.dtype.type(1e-30)
    whole = g - np.sum(g * out, axis=axes, keepdims=True)
    return (out * (whole * tiny * tiny) / tiny / tiny,)


def empty_vjp(np, g, out, _x, axes):
    first = out[..., 0:1] / out[..., 0:1] if out.shape[-1] else np.max(out)
    return (out * (g - np.sum(g * out, axis=axes, keepdims=True)) * first,)


FAULTS = {
    "a wrong vjp": ("softmax", {"vjp": wrong_vjp, "adjoint": None}, "first order"),
    "a wrong jvp": ("softmax", {"jvp": wrong_jvp}, "first order"),
    "a value behind the trace's back": ("max", {"vjp": frozen_vjp}, "compiled"),
    "a float32 slip": ("softmax", {"vjp": narrow_vjp}, "float32"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault, rng):
    name, fields, check = FAULTS[fault]
    op = TABLE[name]
    f, x = example_of(op, op.example), point(op, (5,), rng)
    CHECKS[check](op, f, x, rng)
    with declared.declared(dataclasses.replace(op, **fields)) as planted:
        with pytest.raises(AssertionError):
            CHECKS[check](planted, f, x, rng)


def wrong_batched(np, t, _out, a, b, lu, transposed=0):
    return 2.0 * np.linalg.solve(t[0], t[1][..., None])[..., 0]


def test_a_wrong_batching_rule_is_noticed(rng):
    """The batch runs as a loop then; the derived test takes the warning for an error."""
    op = TABLE["solve"]
    f, batch = example_of(op, op.example), rng.uniform(0.5, 1.5, (12, 5))
    with declared.declared(dataclasses.replace(op, batched=wrong_batched)) as planted:
        with pytest.raises(RuntimeWarning, match="by itself an element gives"):
            CHECKS["batched"](planted, f, batch[0], rng)
        with pytest.warns(RuntimeWarning, match="by itself an element gives"):
            found = tg.vmap(lambda x: f(x))(batch)
    np.testing.assert_allclose(found, declared.looped(f, batch))


def test_a_declaration_may_say_that_elements_go_one_by_one(rng):
    for name in ("solve", "cholesky"):
        op = TABLE[name]
        with declared.declared(dataclasses.replace(op, batch="loop")) as planted:
            CHECKS["batched"](planted, example_of(op, op.example), point(op, (5,), rng), rng)


def test_a_rule_that_fails_without_elements_is_caught():
    op = TABLE["softmax"]
    f = example_of(op, op.example)
    assert check_zero_size(op, f, [(0,)]) == 1
    with declared.declared(dataclasses.replace(op, vjp=empty_vjp)) as planted:
        with pytest.raises(ValueError, match="zero-size array"):
            check_zero_size(planted, f, [(0,)])


def test_an_operation_without_kernels_in_its_layout_is_no_step(rng):
    """A row along axes is a step by its kernels only; without one the function runs eagerly."""
    op = TABLE["softmax"]
    x = point(op, (5,), rng)
    with declared.without_kernel(op):
        c = tg.compile(lambda x: np.sum(tg.softmax(x) ** 2))
        with pytest.warns(RuntimeWarning, match="softmax, which has no kernels for programs"):
            found = c.grad(x)
        np.testing.assert_allclose(c.grad(x), found)
