"""Functions that are refused while they are recorded: the first result is that of an eager call."""

import dataclasses

import numpy as np
import pytest
from compiled import programs, same

import tapegrad as tg
from tapegrad import autograd, nn, optim
from tapegrad.numpy.random import default_rng


def function(forward, backward):
    return type("Made", (autograd.Function,), {"forward": forward, "backward": backward}).apply


def plain(x):
    return x if isinstance(x, np.ndarray) else x.detach().numpy()


class Keeping(autograd.Function):
    """x³, which keeps what is no argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.power, ctx.x = 3.0, x
        return plain(x) ** 3

    @staticmethod
    def backward(ctx, g):
        return ctx.power * g * ctx.x * ctx.x


class Writing(autograd.Function):
    """x³, written to the argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        x[...] = plain(x) ** 3
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return 3.0 * g * ctx.saved_tensors[0] ** 2


@dataclasses.dataclass
class Parts:
    parts: list


class Found:
    def __init__(self, x):
        self.x = x


def is_plain(d):
    return 1.0 if type(d) is np.ndarray else 100.0


def of_complex_text(x, d):
    return np.sum(x) * is_plain(d) + (0.0 if format(1j * d[0], "") else 1.0)


def of_copied_input(x, d):
    made = tg.tensor(d * 2.0, requires_grad=True)
    return np.sum(x * made.detach()) * is_plain(d)


def of_caught_error(x, d):
    try:
        np.linalg.cholesky(-np.eye(2) * x[0])
    except np.linalg.LinAlgError:
        pass
    return np.sum(x**2) * is_plain(d)


def of_keeping(x, d):
    return tg.hessian(lambda x: np.sum(Keeping.apply(x) ** 2))(x)[0, 0] * is_plain(d)


REFUSED = {
    "a format reads complex numbers": of_complex_text,
    "it creates an input from a tensor": of_copied_input,
    "cholesky raises LinAlgError": of_caught_error,
    "leaves more than arguments": of_keeping,
}


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.parametrize("verify", ["once", "never"])
def test_first_results_are_those_of_eager_calls(reason, verify):
    f, x, d = REFUSED[reason], np.array([0.7, 0.3]), np.array([1.0, 2.0])
    c = tg.compile(f, verify=verify)
    with pytest.warns(RuntimeWarning, match=reason):
        found = [c.value_and_grad(x, d) for _ in range(3)]
    for value, gradient in found:
        same(value, tg.value_and_grad(f)(x, d)[0])
        same(gradient, tg.grad(f)(x, d))
    assert programs(c) == 0
    fresh = tg.compile(f, verify=verify)
    with pytest.warns(RuntimeWarning, match=reason):
        same(fresh(x, d), f(x, d))


def test_second_derivatives_of_a_function_with_state():
    f = lambda x: np.sum(Keeping.apply(x) ** 2)
    x = np.array([0.7])
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="leaves more than arguments and results in ctx"):
        found = [c.hessian(x)[0, 0] for _ in range(3)]
    np.testing.assert_allclose(found, 30.0 * 0.7**4, rtol=1e-13)
    c = tg.compile(lambda x: np.sum(tg.grad(f)(x) ** 2))
    with pytest.warns(RuntimeWarning, match="leaves more than arguments and results in ctx"):
        found = [c.grad(x)[0] for _ in range(2)]
    np.testing.assert_allclose(found, 12.0 * 0.7**5 * 30.0 * 0.7**4, rtol=1e-13)


def test_results_of_other_types_hold_plain_values():
    c = tg.compile(lambda x: Found(x * 2.0))
    with pytest.warns(RuntimeWarning, match="the result is of type Found"):
        found = [c(np.ones(2)).x for _ in range(2)]
    assert [type(one) for one in found] == [np.ndarray, np.ndarray]


def test_arguments_of_a_function_that_writes_are_those_of_an_eager_call():
    f = lambda x, d: np.sum(Writing.apply(1.0 * x)) * is_plain(d)
    x, d = np.array([1.0, 2.0]), np.ones(2)
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="may write to its arguments"):
        found = [c.value_and_grad(x, d) for _ in range(2)]
    for value, gradient in found:
        assert value == 9.0
        same(gradient, 3.0 * x**2)


# --- how often a function is called ---------------------------------------------------------------


def calls_of(f, *args, warns, times=2):
    """The results of a compiled function, and how often the function was called."""
    count = [0]

    def counted(*args):
        count[0] += 1
        return f(*args)

    c = tg.compile(counted)
    with pytest.warns(RuntimeWarning, match=warns):
        found = [c(*args) for _ in range(times)]
    return found, count[0]


def test_a_refused_function_is_called_again_at_once():
    reason = "a format reads complex numbers"
    found, count = calls_of(of_complex_text, np.ones(2), np.ones(2), warns=reason)
    assert (found, count) == ([2.0, 2.0], 3)


def test_draws_occur_once():
    for make in (np.random.default_rng, default_rng):
        eager, rng = make(3), make(3)
        found, count = calls_of(lambda x, rng=rng: x * rng.normal(), 2.0, warns="random numbers")
        assert count == 2
        same(found, [2.0 * eager.normal() for _ in range(2)])


def test_dropout_draws_once():
    x = tg.ones(50)
    eager, rng = np.random.default_rng(3), np.random.default_rng(3)
    drop = nn.functional.dropout
    f = lambda x: np.sum(drop(tg.asarray(x), 0.5, generator=rng))
    found, count = calls_of(f, np.ones(50), warns="random numbers")
    assert count == 2
    same(found, [float(np.sum(drop(x, 0.5, generator=eager))) for _ in range(2)])


def test_running_statistics_are_averaged_once():
    norm, other = nn.BatchNorm1d(2, affine=False), nn.BatchNorm1d(2, affine=False)
    x = np.arange(8.0).reshape(4, 2)
    f = lambda x: np.sum(norm(tg.asarray(x)) ** 2)
    _, count = calls_of(f, x, warns="running statistics", times=1)
    other(tg.tensor(x))
    assert count == 1
    same(norm.running_mean.numpy(), other.running_mean.numpy())


def test_steps_of_optimizers_occur_once():
    def train():
        w = tg.tensor([1.0, 2.0], requires_grad=True)
        return w, optim.SGD([w], lr=0.1)

    def step(w, opt):
        def f(x):
            opt.zero_grad()
            loss = np.sum((w * x) ** 2)
            loss.backward()
            opt.step()
            return loss.item()

        return f

    (w, opt), (v, other) = train(), train()
    _, count = calls_of(step(w, opt), np.ones(2), warns="backward pass", times=3)
    for _ in range(3):
        step(v, other)(np.ones(2))
    assert count == 3
    same(w.detach().numpy(), v.detach().numpy())


def test_files_are_written_once(tmp_path):
    with open(tmp_path / "a.txt", "w") as file:
        f = lambda x: (np.savetxt(file, x), np.sum(x))[1]
        found, count = calls_of(f, np.ones(2), warns="writes a file")
    assert (found, count) == ([2.0, 2.0], 2)
    assert len((tmp_path / "a.txt").read_text().split()) == 4


def test_an_effect_and_another_reason():
    """The right result counts for more than that the effect occurs once."""

    def f(x, d):
        values = default_rng(4).normal() * np.random.random() * 0.0
        return of_complex_text(x, d) + values

    found, count = calls_of(f, np.ones(2), np.ones(2), warns="random numbers|complex numbers")
    assert (found, count) == ([2.0, 2.0], 3)
