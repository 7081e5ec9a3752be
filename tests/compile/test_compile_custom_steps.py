"""Operations of the user's as steps of programs: `elementwise`, `custom_vjp`, `Function`."""

import math
import pickle
import threading
import types

import numba
import numpy as np
import pytest
from compiled import check, check_tiers, counts, programs, same

import tapegrad as tg
from tapegrad import autograd

# --- elementwise ------------------------------------------------------------------------------


@tg.elementwise
def bump(x, y):
    if x > y:
        t = math.exp(-x * x)
        return t * y + math.sin(t)
    return x * y * y


def plain_bump(x, y):
    t = np.exp(-x * x)
    return np.where(x > y, t * y + np.sin(t), x * y * y)


@tg.elementwise
def blend(a, b, c, d, e):
    return a * b + c / d - math.exp(-e * e)


cube = tg.elementwise(lambda x: x * x * x, partials=[lambda x: 3.0 * x * x])


@pytest.mark.parametrize("n", [0, 1, 5, 40])
def test_elementwise_at_other_inputs(n, rng):
    def f(x, y):
        return np.sum(np.sin(bump(x, y)) * cube(x)) + np.sum(blend(x, y, 2.0, 4.0, y))

    def closed(x, y):
        return np.sum(np.sin(plain_bump(x, y)) * x**3) + np.sum(x * y + 0.5 - np.exp(-y * y))

    calls = [(rng.normal(size=n), rng.normal(size=n)) for _ in range(4)]
    c = check(f, calls, argnums=(0, 1), recorded=1)
    for args in calls:
        same(c.value_and_grad(*args), tg.value_and_grad(closed, (0, 1))(*args))


def test_elementwise_of_numbers_and_branches(rng):
    def f(x, y):
        total = bump(y, 0.3)
        for k in range(len(x)):
            total = total + cube(x[k]) if x[k] > 0.0 else total * bump(x[k], y)
        return total

    calls = [(rng.normal(size=3), float(rng.normal())) for _ in range(10)]
    check(f, calls, argnums=(0, 1), rtol=1e-11)


def test_elementwise_in_float32(rng):
    calls = [(rng.normal(size=30).astype(np.float32),) for _ in range(3)]
    check(lambda x: np.sum(cube(x) * bump(x, np.sin(x))), calls, rtol=2e-5, recorded=1)


def test_elementwise_is_fused_and_native(rng):
    def f(x):
        return np.sum(np.exp(-cube(x)) * bump(x, 0.5))

    calls = [(rng.uniform(0.1, 1.0, size=50),) for _ in range(4)]
    check_tiers(f, calls)
    c = tg.compile(f)
    c.grad(*calls[0])
    c.grad(*calls[1])
    assert "fused over 50" in c.explain() and "bump" in c.explain()


def test_second_derivatives_of_elementwise(rng):
    c = tg.compile(lambda x: np.sum(cube(x)))
    for _ in range(3):
        x, v = rng.normal(size=12), rng.normal(size=12)
        same(c.hessian(x), np.diag(6.0 * x))
        same(c.hvp(x, v), 6.0 * x * v)


def test_elementwise_in_numba_code_but_not_in_files(tmp_path):
    c = tg.compile(lambda x: np.sum(cube(x)))
    _, value_and_grad = c.numba(np.ones(3))

    @numba.njit
    def caller(x, g):
        return value_and_grad(x, g)

    gradient = np.zeros(3)
    assert caller(np.array([1.0, 2.0, 3.0]), gradient) == 36.0
    np.testing.assert_array_equal(gradient, [3.0, 12.0, 27.0])
    with pytest.raises(ValueError, match="an operation of a user's, which files have no name for"):
        c.save(tmp_path / "cube")


# --- custom_vjp -------------------------------------------------------------------------------


@numba.njit
def powers(x, n, y):
    return x**n * y, np.sum(x) * np.ones(1)


@numba.njit
def powers_adjoint(g, h, x, n, y, power, total):
    return g * n * x ** (n - 1) * y + h[0], None, np.sum(g * x**n)


power = tg.custom_vjp(powers, powers_adjoint)


@numba.njit
def cubed(x):
    return x * x * x


@numba.njit
def cubed_adjoint(g, x, y):
    return 3.0 * g * x * x


@numba.njit
def cubed_second(h, g, x, y, back):
    return 3.0 * h * x * x, 6.0 * g * x * h, np.zeros_like(y)


once = tg.custom_vjp(cubed, cubed_adjoint)
twice = tg.custom_vjp(cubed, tg.custom_vjp(cubed_adjoint, cubed_second))


def with_powers(x, y):
    raised, total = power(2.0 * x[::-1], 3, y)
    chosen, _ = power(x, np.argmax(x) + 1, 1.0)  # a whole number that the program computes
    return np.sum(np.sin(raised)) * total[0] + np.sum(chosen)


@pytest.mark.parametrize("n", [1, 4, 30])
def test_custom_vjp_at_other_inputs(n, rng):
    calls = [(rng.uniform(0.1, 1.0, size=n), float(rng.normal())) for _ in range(5)]
    check(with_powers, calls, argnums=(0, 1), recorded=1, rtol=1e-11)


def test_custom_vjp_has_its_closed_form(rng):
    c = tg.compile(lambda x: np.sum(once(x) * x))
    for _ in range(3):
        x = rng.normal(size=(2, 3)).T  # copied to C order
        same(c.value_and_grad(x), (np.sum(x**4), 4.0 * x**3))


def test_rows_with_custom_vjp(rng):
    c, xs, ys = (
        tg.compile(with_powers, argnums=(0, 1)),
        rng.uniform(size=(5, 3)),
        rng.normal(size=5),
    )
    values, gradients = c.map(xs, ys)
    eager = tg.value_and_grad(with_powers, (0, 1))
    for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
        same((values[k], tuple(g[k] for g in gradients)), eager(x, float(y)), rtol=1e-11)


def test_custom_vjp_of_float32_and_of_values_without_derivative(rng):
    single = [(rng.normal(size=4).astype(np.float32),) for _ in range(3)]
    check(lambda x: np.sum(once(x) * x), single, rtol=1e-5, recorded=1)
    double = [(rng.normal(size=4),) for _ in range(3)]
    check(lambda x: np.sum(once(tg.tensor(x).detach()) * x), double, recorded=1)


def test_second_derivatives_of_custom_vjp(rng):
    c = tg.compile(lambda x: np.sum(np.sin(twice(x))))
    closed = tg.hessian(lambda x: np.sum(np.sin(x**3)))
    for _ in range(3):
        x, v = rng.normal(size=5), rng.normal(size=5)
        same(c.hessian(x), closed(x))
        same(c.hvp(x, v), closed(x) @ v)
    with pytest.raises(NotImplementedError, match="through cubed needs the adjoint of its backwar"):
        tg.compile(lambda x: np.sum(np.sin(once(x)))).hessian(x)


def test_gradient_through_a_gradient_of_custom_vjp_is_refused():
    c = tg.compile(lambda x: np.sum(tg.grad(lambda x: np.sum(once(x)))(x) ** 2))
    np.testing.assert_allclose(c(np.array([1.0, 2.0])), 9.0 * 17.0)
    for _ in range(3):
        with pytest.raises(NotImplementedError, match="needs the adjoint of its backward"):
            c.grad(np.array([1.0, 2.0]))


@numba.njit
def picky_adjoint(g, x, y):
    if x[0] > 1.0:
        raise ValueError("too large")
    return g if x[0] > 0.0 else np.zeros(1)


@pytest.mark.parametrize(
    "x, error", [([2.0, 0.0], RuntimeError), ([-1.0, 0.0], ValueError)], ids=["raises", "shape"]
)
def test_errors_of_a_compiled_backward(x, error):
    picky = tg.custom_vjp(cubed, picky_adjoint)
    c = tg.compile(lambda x: np.sum(picky(x)))
    for _ in range(2):
        same(c.grad(np.array([0.5, 0.0])), np.ones(2))
    with pytest.raises(error, match="tapegrad.cubed: backward r") as eagerly:
        tg.grad(lambda x: np.sum(picky(x)))(np.array(x))
    with pytest.raises(error) as replayed:
        c.grad(np.array(x))
    assert str(replayed.value) == str(eagerly.value)


def test_custom_steps_are_refused_where_python_is_not(tmp_path):
    functions = {"cubed of tg.custom_vjp": once, "Cubed": Cubed.apply}
    for name, cubes in functions.items():
        c = tg.compile(lambda x, cubes=cubes: np.sum(cubes(x)))
        with pytest.raises(ValueError, match=f"the program calls {name}, which is Python"):
            c.numba(np.ones(3))
        with pytest.raises(ValueError, match=f"it calls {name}, which files have no name for"):
            c.save(tmp_path / "cubes")
        assert f"calls: {name} × 1" in c.explain()
        assert c.profile(np.ones(3)).steps[0].tier == "Python"


def importable(x):
    return np.sum(Cubed.apply(x))


importable_compiled = tg.compile(importable)


def test_a_pickle_goes_without_programs():
    importable_compiled.grad(np.ones(2))
    other = pickle.loads(pickle.dumps(importable_compiled))
    assert programs(other) == 0
    same(other.grad(np.array([1.0, 2.0])), np.array([3.0, 12.0]))


# --- Function ---------------------------------------------------------------------------------


class Cubed(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3.0 * x * x * gradient


def function(forward, backward=None, **more):
    """`apply` of a Function of these methods."""
    methods = {"forward": forward, **({"backward": backward} if backward else {}), **more}
    named = {name: staticmethod(method) for name, method in methods.items()}
    return types.new_class(
        "Made", (autograd.Function,), exec_body=lambda own: own.update(named)
    ).apply


def array(x):
    return x.detach().numpy()


def ranked(ctx, x, y):
    """Results of all kinds, and state that is no tensor."""
    order, largest = tg.tensor(np.argsort(array(x))), x.max()
    ctx.mark_non_differentiable(order, largest)
    ctx.save_for_backward(x, y)
    ctx.positive = array(x) > 0.0
    return x * y, order, largest, None, x.sum()


def ranked_backward(ctx, g, order, largest, none, total):
    assert none is None and not array(order).any() and array(largest) == 0.0
    x, y = ctx.saved_tensors
    return (g * y + total) * np.where(ctx.positive, 1.0, 2.0), (g * x).sum()


class ClippedSine(autograd.Function):
    @staticmethod
    def forward(x, limit):
        return np.minimum(np.sin(x), limit)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.limit = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return np.where(array(y) < ctx.limit, np.cos(array(x)) * gradient, 0.0), None


def with_ranked(x, y):
    product, order, largest, _, total = function(ranked, ranked_backward)(Cubed.apply(x), y)
    return np.sum(np.sin(product)[order[:2]]) + largest * total + np.sum(Cubed.apply(x) * y)


def branching(ctx, x):
    ctx.factor = 2.0 if x.sum() > 0.0 else 3.0  # no guard: forward is called anew
    return x * ctx.factor


def in_place(ctx, x):
    y = x * 2.0
    return y, y, x  # one tensor twice, and an argument


def fortran(ctx, x):
    return tg.tensor(np.asfortranarray(np.exp(array(x))))


def unmaterialized(ctx, x):
    ctx.set_materialize_grads(False)
    return 2.0 * x, 3.0 * x


def sum_of_given(ctx, g, h):
    return sum(factor * one for factor, one in ((2.0, g), (3.0, h)) if one is not None)


def nesting(ctx, x):
    ctx.save_for_backward(x)
    return Cubed.apply(x) * 1.0


def saved_with_constant(ctx, x, weights):
    ctx.save_for_backward(weights)
    return x * weights


double = function(lambda ctx, x: 2.0 * x, lambda ctx, g: 2.0 * g)
affine = function(lambda ctx, x: 2.0 * x, lambda ctx, g: 2.0 * g + 1.0)
position = function(lambda ctx, x: tg.tensor(int(np.argmax(array(x)))), lambda ctx, g: None)
no_backward = function(lambda ctx, x: 2.0 * x)
first_and_nothing = function(lambda ctx, x: (2.0 * x, x[:0] * 1.0), lambda ctx, g, h: 2.0 * g)
weighted = function(saved_with_constant, lambda ctx, g: (g * ctx.saved_tensors[0], None))
WEIGHTS = tg.tensor([1.0, 2.0, 3.0, 4.0])

FUNCTIONS = {
    "results of all kinds": lambda x: with_ranked(x, x[0] * x[1]),
    "setup_context": lambda x: np.sum(ClippedSine.apply(x, 0.5) * x),
    "a branch in forward": lambda x: np.sum(function(branching, lambda c, g: g * c.factor)(x)),
    "a result twice": lambda x: sum(
        np.sum(one * x) for one in function(in_place, lambda c, g, h, i: 2.0 * g + 2.0 * h + i)(x)
    ),
    "numbers": lambda x: Cubed.apply(x[0]) * Cubed.apply(np.sum(x)),
    "memory orders": lambda x: np.sum(
        function(fortran, lambda c, g: 2.0 * g)(x.reshape(2, 2).T)[:, 0] * x[:2]
    ),
    "gradients None": lambda x: np.sum(function(unmaterialized, sum_of_given)(x)[1] * x),
    "once differentiable": lambda x: np.sum(
        function(
            lambda ctx, x: 2.0 * x, autograd.function.once_differentiable(lambda ctx, g: 2.0 * g)
        )(x)
        ** 2
    ),
    "not linear, adjoint 0": lambda x: np.sum(affine(x) * 0.0) + np.sum(x),
    "a whole number": lambda x: np.sum(x * x[position(x)]),
    "detached operand": lambda x: np.sum(x * double(x.detach())),
    "read by a mask only": lambda x: np.sum(np.where(no_backward(x) > 0.0, x, 3.0 * x)),
    "not read": lambda x: (no_backward(x), np.sum(x * x))[1],
    "a result without elements": lambda x: np.sum(first_and_nothing(x)[0] * x),
    "a constant tensor": lambda x: np.sum(weighted(x, WEIGHTS)),
    "no elements": lambda x: np.sum(Cubed.apply(x[:0])) + np.sum(x),
    "one inside another": lambda x: np.sum(function(nesting, Cubed.backward)(x)),
    "constants": lambda x: np.sum(x * Cubed.apply(WEIGHTS)),
    "a derivative inside": lambda x: np.sum(
        tg.grad(lambda x: np.sum(np.sin(Cubed.apply(x))))(x) ** 2
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_at_other_inputs(name, rng):
    calls = [(rng.normal(size=4),) for _ in range(5)]
    check(lambda x: FUNCTIONS[name](tg.tensor(x)), calls, recorded=1)


def test_a_function_has_its_closed_form(rng):
    c = tg.compile(lambda x: np.sum(Cubed.apply(x) * x))
    for n in (3, 3, 3, 0, 1, 1):
        x = rng.normal(size=n)
        same(c.value_and_grad(x), (np.sum(x**4), 4.0 * x**3))
    x = rng.normal(size=5)
    same(tg.compile(lambda x: Cubed.apply(x) * x).jacobian(x), np.diag(4.0 * x**3))


def test_a_function_in_float32(rng):
    calls = [(rng.normal(size=6).astype(np.float32),) for _ in range(3)]
    check(lambda x: np.sum(Cubed.apply(x) * x), calls, rtol=1e-5, recorded=1)


def test_a_function_among_native_steps(rng):
    calls = [(rng.normal(size=40),) for _ in range(4)]
    check_tiers(lambda x: np.sum(np.exp(-x * x) * Cubed.apply(np.sin(x))), calls, rtol=1e-11)


def test_results_of_another_shape_are_another_program(rng):
    def positive(ctx, x):
        ctx.places = np.flatnonzero(array(x) > 0.0)
        return tg.tensor(array(x)[ctx.places])

    def back(ctx, g):
        made = np.zeros(3)
        made[ctx.places] = array(g)
        return tg.tensor(made)

    kept = function(positive, back)
    signs = [[1, 1, -1], [1, -1, 1], [1, -1, -1], [-1, -1, -1], [1, 1, -1], [1, -1, -1]]
    calls = [(rng.uniform(0.5, 1.0, size=3) * np.array(one),) for one in signs]
    check(lambda x: np.sum(kept(x) ** 2), calls, recorded=3)


def test_guards_on_results_of_a_function(rng):
    def f(x):
        y = Cubed.apply(x)
        return np.sum(y * x) if y.sum() > 0.0 else np.sum(np.sin(y))

    check(f, [(rng.normal(size=4),) for _ in range(8)], recorded=2)


@counts
def test_calls_are_made_in_the_order_of_eager_ones():
    log = []

    def noted(name):
        def forward(ctx, x):
            log.append(name)
            return 2.0 * x

        return function(forward, lambda ctx, g: (log.append(name.upper()), 2.0 * g)[1])

    a, b, unread = noted("a"), noted("b"), noted("u")

    def f(x):
        unread(x)
        return np.sum(a(x) * b(x) + a(b(x)) + a(x))

    c = tg.compile(f)
    for _ in range(3):
        c.grad(np.ones(3))
    log.clear()
    c.grad(np.full(3, 2.0))
    replayed = log.copy()
    log.clear()
    tg.grad(f)(np.full(3, 2.0))
    assert replayed == log and log.count("u") == 1 and "U" not in log


def picky(ctx, x):
    if array(x)[0] > 1.0:
        raise KeyError("forward of the user's")
    return 2.0 * x


def picky_backward(ctx, g):
    if array(g)[0] > 1.0:
        raise KeyError("backward of the user's")
    return 2.0 * g


@pytest.mark.parametrize("on_branch", ["record", "error"])
def test_exceptions_pass_unchanged(on_branch):
    picked = function(picky, picky_backward)
    c = tg.compile(lambda x, y: np.sum(picked(x) * y), on_branch=on_branch)
    small, large = np.zeros(2), np.full(2, 2.0)
    for _ in range(3):
        same(c.grad(small, np.ones(2)), np.full(2, 2.0))
        with pytest.raises(KeyError, match="forward of the user's"):
            c.grad(large, np.ones(2))
        with pytest.raises(KeyError, match="backward of the user's"):
            c.grad(small, large)
    with pytest.raises(KeyError, match="forward of the user's"):
        c.map(np.stack([small, large]), np.ones((2, 2)))
    assert programs(c) == 1


def test_impure_functions_are_noticed():
    scale = [1.0]
    c = tg.compile(
        lambda x: np.sum(function(lambda ctx, x: x * scale[0], lambda ctx, g: g * scale[0])(x))
    )
    same(c.grad(np.ones(2)), np.ones(2))
    scale[0] = 3.0
    same(c.grad(np.ones(2)), np.full(2, 3.0))  # called anew, it reads what is there now
    steps = iter(range(100))
    stateful = function(lambda ctx, x: x * next(steps), lambda ctx, g: g)
    with pytest.warns(RuntimeWarning, match="replayed at once it gives something else"):
        c = tg.compile(lambda x: np.sum(stateful(x)))
        c.grad(np.ones(2))
        c.grad(np.ones(2))


def test_threads_with_a_function(rng):
    def f(x):
        return np.sum(np.sin(Cubed.apply(x)) * x)

    c, xs = tg.compile(f), rng.normal(size=(40, 3))
    wanted, found = [tg.grad(f)(x) for x in xs], {}
    c.grad(xs[0])
    c.grad(xs[1])

    def work(first):
        for k in range(first, len(xs), 4):
            found[k] = c.grad(xs[k])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, one in enumerate(wanted):
        same(found[k], one)


def test_compiled_functions_inside_one_another(rng):
    inner = tg.compile(lambda x: np.sum(Cubed.apply(x) * x))
    compiled = tg.compile(lambda x: inner(np.sin(x)))
    for _ in range(4):
        x = rng.normal(size=3)
        wanted = 4.0 * np.sin(x) ** 3 * np.cos(x)
        same(tg.grad(lambda x: inner(np.sin(x)))(x), wanted)
        same(compiled.grad(x), wanted)


# --- second derivatives and forward mode ----------------------------------------------------------


def test_derivatives_of_a_backward_are_programs(rng):
    def f(x):
        return np.sum(np.sin(Cubed.apply(x)))

    def closed(x):
        return np.sum(np.sin(x**3))

    c = tg.compile(f)
    for _ in range(3):
        x, v = rng.normal(size=5), rng.normal(size=5)
        same(c.hessian(x), tg.hessian(closed)(x))
        same(c.hvp(x, v), tg.hvp(closed)(x, v))
        same(c.jvp((x,), (v,)), tg.jvp(closed, (x,), (v,)))
    assert all(programs(one) == 1 for one in c._derived.values())


def with_state(ctx, x):
    ctx.save_for_backward(x)
    ctx.factor = 2.0 if x.sum() > 0.0 else 3.0
    return ctx.factor * x**3


def test_derivatives_of_a_backward_with_state_are_eager(rng):
    cubes = function(with_state, lambda ctx, g: ctx.factor * 3.0 * ctx.saved_tensors[0] ** 2 * g)

    def f(x):
        return np.sum(np.sin(cubes(x)))

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="leaves more than arguments and results in ctx"):
        c.hessian(np.ones(3))
    for _ in range(4):
        x = rng.normal(size=3)
        same(c.hessian(x), tg.hessian(f)(x))


# --- what stays eager -----------------------------------------------------------------------------


def closed_over(x):
    y = 2.0 * x
    return np.sum(function(lambda ctx, x: x * y.detach(), lambda ctx, g: g)(x))


def closed_over_number(x):
    y = 2.0 * x[0]
    return np.sum(function(lambda ctx, x: x * (3.0 * y), lambda ctx, g: g)(x))


def saves_another(x):
    y = 2.0 * x

    def forward(ctx, x):
        ctx.save_for_backward(y)
        return 2.0 * x

    return np.sum(function(forward, lambda ctx, g: ctx.saved_tensors[0] * g)(x))


def keeps_another(x):
    y = 2.0 * x

    def forward(ctx, x):
        ctx.y = y
        return 2.0 * x

    return np.sum(function(forward, lambda ctx, g: ctx.y * g)(x))


def returns_another(x):
    y = 2.0 * x
    return np.sum(function(lambda ctx, x: y, lambda ctx, g: g)(x))


def closed_over_in_backward(x):
    y = 2.0 * x

    def scaled(g):
        return g * y.detach()

    return np.sum(function(lambda ctx, x: 2.0 * x, lambda ctx, g: scaled(g))(x))


def without_recording(ctx, x):
    with tg.no_grad():
        return 2.0 * x


def written(ctx, x):
    ctx.mark_dirty(x)
    x[...] = 2.0 * x
    return x


def catching(x):
    try:
        return np.sum(function(picky, picky_backward)(x))
    except KeyError:
        return 3.0 * np.sum(x)


@numba.njit
def raising(x):
    if x[0] > 1.0:
        raise ValueError("too large")
    return 2.0 * x


@numba.njit
def raising_adjoint(g, x, y):
    return 2.0 * g


raises = tg.custom_vjp(raising, raising_adjoint)


def catching_compiled(x):
    try:
        return np.sum(raises(x))
    except ValueError:
        return 3.0 * np.sum(x)


EAGER = {
    "reads a recorded tensor that is not an argument": [closed_over, closed_over_number],
    "ctx of Made holds a recorded tensor": [saves_another, keeps_another],
    "returns a recorded tensor that it was not given": [returns_another],
    "backward of Made reads a recorded tensor": [closed_over_in_backward],
    "recording is switched off": [
        lambda x: np.sum(function(without_recording, lambda ctx, g: 2.0 * g)(x))
    ],
    "may write to its arguments": [
        lambda x: np.sum(function(written, lambda ctx, g: 2.0 * g)(1.0 * x) ** 2)
    ],
    "forward of Made raises KeyError": [catching],
    "raising raises ValueError": [catching_compiled],
    "returns a result of type int": [
        lambda x: np.sum(x) * function(lambda ctx, x: (3.0, 3), lambda ctx, g, h: None)(x)[0]
    ],
    "numbers that float64 does not hold": [
        lambda x: np.sum(
            function(lambda ctx, x: (x, tg.tensor(2**60 + 1)), lambda ctx, g, h: g)(2.0 * x)[0]
        )
    ],
}


@pytest.mark.parametrize("reason, f", [(k, f) for k, fs in EAGER.items() for f in fs])
def test_what_runs_eagerly(reason, f):
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match=reason):
        for x in ([2.0, 1.0], [0.5, 3.0], [-1.0, 1.5]):
            same(c.value_and_grad(np.array(x)), tg.value_and_grad(f)(np.array(x)))
    assert programs(c) == 0


def test_whole_numbers_that_become_too_large():
    def forward(ctx, x):
        return 2.0 * x, tg.tensor(2**60 + 1 if x.sum() > 0.0 else 3)

    large = function(forward, lambda ctx, g, h: 2.0 * g)
    c = tg.compile(lambda x: large(x))
    for _ in range(2):
        same(c(-np.ones(2)), (np.full(2, -2.0), np.array(3)))
    with pytest.warns(RuntimeWarning, match="numbers that float64 does not hold"):
        assert int(c(np.ones(2))[1]) == 2**60 + 1


def test_a_batch_of_calls_of_a_function_is_a_loop(rng):
    xs = rng.normal(size=(64, 2))
    with pytest.warns(RuntimeWarning, match="in a loop: it calls Cubed, which has no batching"):
        found = tg.grad(lambda xs: np.sum(tg.vmap(lambda x: np.sum(Cubed.apply(x)))(xs)))(xs)
    np.testing.assert_allclose(found, 3.0 * xs**2)


def test_values_of_a_function_that_takes_tensors_alone(rng):
    c = tg.compile(lambda x: np.sum(Cubed.apply(x) * x))
    for _ in range(4):
        x = rng.normal(size=3)
        same(c(x), np.sum(x**4))


@pytest.mark.parametrize("f, reason", [(catching, "Made raises"), (catching_compiled, "raising")])
def test_errors_that_are_caught_after_a_program_was_made(f, reason):
    c = tg.compile(f)
    for _ in range(3):
        same(c.grad(np.zeros(2)), np.full(2, 2.0))
    assert programs(c) == 1
    with pytest.warns(RuntimeWarning, match=reason):
        same(c.grad(np.full(2, 2.0)), np.full(2, 3.0))
    same(c.grad(np.zeros(2)), np.full(2, 2.0))
