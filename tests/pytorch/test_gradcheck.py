"""gradcheck, gradgradcheck and check_grads: what passes, what is caught, and in which words."""

import dataclasses
import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.ops.table import BY_CODE, TABLE

gradcheck = sys.modules["tapegrad.autograd.gradcheck"]  # beside the function of that name
check, check_twice = tg.autograd.gradcheck, tg.autograd.gradgradcheck
MODES = [{}, {"fast_mode": True}]
every_mode = pytest.mark.parametrize("mode", MODES, ids=["all", "fast"])


def given(*arrays):
    return tuple(tg.tensor(np.asarray(a, np.float64), requires_grad=True) for a in arrays)


X = given(np.array([[0.3, -1.2], [0.7, 2.1]]))
TWO = given(np.array([0.3, 0.7]), 1.5)


def several(x, y):
    return np.sin(x) * y, np.sum(x) * y, x[::-1] * 2.0


def halved(x):
    """Its recorded derivative is half of the true one."""
    return x * x.detach()


# --- gradcheck --------------------------------------------------------------------------------


@every_mode
def test_right_derivatives_pass(mode):
    everything = dict(
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        check_grad_dtypes=True,
    )
    assert check(several, TWO, **everything, **mode) is True
    assert check(lambda x: x @ x, X, **everything, **mode) is True
    assert check(np.tanh, X[0], **mode) is True
    assert check_twice(several, TWO, check_fwd_over_rev=True, check_batched_grad=True, **mode)


@every_mode
def test_a_wrong_derivative_is_caught(mode):
    with pytest.raises(tg.autograd.GradcheckError, match="Jacobian mismatch for output 0") as error:
        check(halved, given([2.0, 3.0]), **mode)
    text = str(error.value)
    assert "with respect to input 0" in text
    assert "numerical:[[4. 0.]\n [0. 6.]]" in _rounded(text)
    assert "analytical:[[2. 0.]\n [0. 3.]]" in _rounded(text)
    assert check(halved, given([2.0, 3.0]), raise_exception=False, **mode) is False


def _rounded(text):
    """The message with its numbers rounded."""
    head, _, rest = text.partition("numerical:")
    numerical, _, analytical = rest.partition("analytical:")
    shown = [np.array2string(np.round(_numbers(part), 5) + 0.0) for part in (numerical, analytical)]
    return f"{head}numerical:{shown[0]}\nanalytical:{shown[1]}"


def _numbers(text):
    return np.array([row.strip(" []").split() for row in text.strip().split("\n")], float)


def test_the_output_and_the_input_are_named():
    def f(x, c, y):
        return x * y, halved(y) * c

    inputs = (*given(1.0), tg.tensor(2.0), *given(3.0))
    with pytest.raises(RuntimeError, match="for output 1 with respect to input 2"):
        check(f, inputs)


@every_mode
def test_a_wrong_slope_is_caught_in_forward_mode(mode):
    @tg.elementwise(partials=[lambda x: np.cos(x) * 1.01])
    def wrong(x):
        return np.sin(x)

    only = dict(check_forward_ad=True, check_backward_ad=False, **mode)
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
        check(wrong, X, **only)
    assert check(np.sin, X, **only)


@every_mode
def test_a_wrong_second_derivative_is_caught(mode):
    """Value and first derivative are those of the cube, the second derivative is 0."""

    def cube(x):
        d = x.detach()
        return 3.0 * d**2 * (x - d) + d**3

    assert check_twice(lambda x: x**3, X, **mode)
    assert check(cube, X, **mode)
    with pytest.raises(RuntimeError, match="mismatch for output 0 with respect to input 0"):
        check_twice(cube, X, **mode)


def test_given_gradients_of_outputs():
    assert check_twice(several, TWO, given([1.0, 2.0], 3.0, [0.5, 0.1]))
    assert check_twice(np.exp, X[0], given(np.ones((2, 2)))[0])


def test_a_derivative_that_is_lost_is_caught():
    with pytest.raises(RuntimeError, match="output 0 is not recorded, but its numerical Jacobian"):
        check(lambda x: x.detach() * 2.0, X)
    assert check(lambda x: (x * 2.0, np.floor(x.detach())), X)


def test_float32_as_in_pytorch():
    """A hand-written sigmoid passes at eps 1e-3 and fails at 1e-4; in float64 at both."""
    torch = pytest.importorskip("torch")
    points = np.array([0.3071, 1.1043, 1.3605, -0.3471], np.float32)

    class Sigmoid(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = 1 / (1 + torch.exp(-x))
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, gradient):
            (out,) = ctx.saved_tensors
            return gradient * out * (1 - out)

    def verdict(dtype, eps):
        found = []
        ours = tg.tensor(points.astype(dtype), requires_grad=True)
        theirs = torch.tensor(points.astype(dtype), requires_grad=True)
        for function, run, x in (
            (lambda x: 1 / (1 + np.exp(-x)), check, ours),
            (Sigmoid.apply, torch.autograd.gradcheck, theirs),
        ):
            if dtype == np.float32:
                with pytest.warns(UserWarning, match="precision|float32"):
                    found.append(run(function, (x,), eps=eps, raise_exception=False))
            else:
                found.append(run(function, (x,), eps=eps, raise_exception=False))
        return found

    assert verdict(np.float32, 1e-3) == [True, True]
    assert verdict(np.float32, 1e-4) == [False, False]
    assert verdict(np.float64, 1e-4) == [True, True]
    assert verdict(np.float64, 1e-6) == [True, True]


def test_inputs_are_not_changed():
    before = X[0].detach().numpy().copy()
    check(np.sin, X)
    assert np.array_equal(X[0].detach().numpy(), before)
    assert X[0].grad is None


def test_errors():
    with pytest.raises(ValueError, match="gradcheck: none of the inputs requires grad"):
        check(np.sin, (tg.tensor([1.0]), np.ones(2)))
    with pytest.raises(ValueError, match="check_forward_ad and check_backward_ad are both false"):
        check(np.sin, X, check_backward_ad=False)
    with pytest.raises(ValueError, match="check_batched_grad needs check_backward_ad"):
        check(np.sin, X, check_batched_grad=True, check_backward_ad=False, check_forward_ad=True)
    with pytest.raises(ValueError, match="check_batched_forward_grad needs check_forward_ad"):
        check(np.sin, X, check_batched_forward_grad=True)
    with pytest.raises(TypeError, match="masked"):
        check(np.sin, X, masked=True)


# --- rules that a sweep of ours keeps: each broken on purpose --------------------------------


def broken(monkeypatch, change):
    """Let every reverse sweep's adjoints be changed by `change(adjoints, seeds, call number)`."""
    calls = []

    def pulled(outs, inputs, seeds, nested):
        calls.append(None)
        return change(original(outs, inputs, seeds, nested), seeds, len(calls))

    original = gradcheck.pulled
    monkeypatch.setattr(gradcheck, "pulled", pulled)


@pytest.mark.parametrize(
    "change,text",
    [
        (lambda a, s, n: [x + n for x in a], "backward is not reentrant"),
        (lambda a, s, n: [x + 1.0 for x in a], "backward does not multiply by the gradient"),
        (lambda a, s, n: [np.float32(x) for x in a], "dtype float32, the input float64"),
        (lambda a, s, n: [x + (s[0] is None) for x in a], "no gradient at output 0 gives"),
        (
            lambda a, s, n: [x + (np.sum(s[0] == 1.0) == 1) if s[0] is not None else x for x in a],
            "backward for several seeds at once differs",
        ),
    ],
)
def test_broken_rules(change, text, monkeypatch):
    f = lambda x: (np.sin(x), x * 2.0)
    options = dict(check_grad_dtypes=True, check_batched_grad=True)
    assert check(f, X, **options)
    broken(monkeypatch, change)
    with pytest.raises(tg.autograd.GradcheckError, match=text):
        check(f, X, **options)


def test_nondet_tol(monkeypatch):
    broken(monkeypatch, lambda a, s, n: [x * (1 + 1e-9 * n) for x in a])
    assert not check(np.sin, X, raise_exception=False)
    assert check(np.sin, X, nondet_tol=1e-6)


def test_broken_batched_forward(monkeypatch):
    original = gradcheck.pushed
    monkeypatch.setattr(gradcheck, "pushed", lambda *a: [t + 1.0 for t in original(*a)])
    with pytest.raises(tg.autograd.GradcheckError, match="forward mode for several seeds at once"):
        check(np.sin, X, check_forward_ad=True, check_batched_forward_grad=True)


# --- check_grads ------------------------------------------------------------------------------


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("fwd", "rev")])
def test_check_grads_passes(modes):
    tree = ({"a": np.array([0.3, 1.2]), "b": (0.7, [np.ones((2, 2))])}, 2.0)

    def f(tree, y):
        a, (b, (c,)) = tree["a"], tree["b"]
        return {"x": np.tanh(a) * b, "y": np.sum(c @ a) * y**3}

    tg.check_grads(f, tree, modes=modes)
    tg.check_grads(lambda x: np.sin(x) * x, (0.3,), order=4, modes=modes)
    tg.check_grads(np.exp, (np.ones(3, np.float32),), order=1, modes=modes)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_check_grads_catches_a_wrong_derivative(mode):
    with pytest.raises(AssertionError, match=f"the {mode} derivative of the function is"):
        tg.check_grads(
            lambda x: halved(x) if isinstance(x, tg.Tensor) else x * x, (2.0,), 1, [mode]
        )


def test_check_grads_catches_a_wrong_second_derivative():
    """Only what is recorded in reverse mode is wrong: the first order passes."""

    def tanh(slope_of_slope):
        class Slope(tg.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.x = x
                return 1.0 - np.tanh(x) ** 2

            @staticmethod
            def backward(ctx, g):
                x = ctx.x
                return slope_of_slope * np.tanh(x) * (1.0 - np.tanh(x) ** 2) * g

        class Tanh(tg.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.x = x
                return np.tanh(x)

            @staticmethod
            def backward(ctx, g):
                x = ctx.x
                return g * Slope.apply(x)

        return lambda x: np.sum(Tanh.apply(x))

    x = np.array([0.3, 1.2])
    tg.check_grads(tanh(-2.0), (x,), order=2, modes=("rev",))
    tg.check_grads(tanh(-1.0), (x,), order=1, modes=("rev",))
    with pytest.raises(AssertionError, match=r"derivative of rev of the function .* \(order 2"):
        tg.check_grads(tanh(-1.0), (x,), order=2, modes=("rev",))


def test_check_grads_catches_a_wrong_rule(monkeypatch):
    wrong = dataclasses.replace(TABLE["cumsum"], jvp=lambda np, t, out, x, axes: None)
    monkeypatch.setitem(BY_CODE, wrong.code, wrong)
    with pytest.raises(AssertionError, match="the fwd derivative of the function is 0.0"):
        tg.check_grads(lambda x: np.sum(np.cumsum(x)), (np.ones(3),), order=1)


def test_check_grads_errors():
    with pytest.raises(ValueError, match=r"modes is \('back',\) and order 2; modes are some of"):
        tg.check_grads(np.sin, (1.0,), modes=("back",))
    with pytest.raises(ValueError, match="the order is 1 or more"):
        tg.check_grads(np.sin, (1.0,), order=0)
