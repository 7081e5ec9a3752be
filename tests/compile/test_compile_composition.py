"""Compiled functions inside other things: transforms, recordings, copies, threads."""

import copy
import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor

import compiled_functions
import numpy as np
import pytest
from assumed import needs
from compiled import same

import tapegrad as tg

X = np.array([0.3, -0.7, 1.1])


def f(x, y=2.0):
    return np.sum(np.sin(x) * x * y) ** 2 if x[0] > 0 else np.sum(x) * y


def several(x, y):
    return x * y, {"a": np.outer(x, x), "b": x[0] * y, "mask": x > 0.0}


def rows(function, *args):
    """The number of rows of a function's tape that are calls of functions."""
    return str(tg.record(function, *args)).count("function ")


def warm(c, *calls):
    """A compiled function that has been compared with its own for such calls."""
    for _ in range(3):
        for args in calls:
            c.value_and_grad(*args)
    return c


# --- transforms -----------------------------------------------------------------------------------


def test_transforms_of_a_compiled_function_are_its_methods():
    c = warm(tg.compile(f), (X, 3.0))
    assert tg.grad(c) == c.grad and tg.value_and_grad(c) == c.value_and_grad
    assert tg.hessian(c) == c.hessian and tg.jacobian(c) == c.jacobian and tg.hvp(c) == c.hvp
    for x in (X, -X, 2 * X):
        same(tg.grad(c)(x, 3.0), tg.grad(f)(x, 3.0))
        same(tg.hessian(c)(x, 3.0), tg.hessian(f)(x, 3.0))
        same(tg.hvp(c)(x, X, 3.0), tg.hvp(f)(x, X, 3.0))
        same(tg.jvp(c, (x, 3.0), (X, 1.0)), tg.jvp(f, (x, 3.0), (X, 1.0)))
        same(tg.vjp(c, x, 3.0)[1](2.0), tg.vjp(f, x, 3.0)[1](2.0))
        same(tg.vmap(c)(np.stack([x] * 20)), tg.vmap(f)(np.stack([x] * 20)))


def test_other_arguments_are_differentiated_by_programs_of_their_own():
    c = tg.compile(f)
    for argnums in (1, (0, 1), (1, 0), (0,), -1):
        assert tg.grad(c, argnums) == tg.grad(c, argnums)  # made once
        for x in (X, -X, 2 * X):
            same(tg.grad(c, argnums)(x, 3.0), tg.grad(f, argnums)(x, 3.0))
            same(tg.jacobian(c, argnums)(x, 3.0), tg.jacobian(f, argnums)(x, 3.0))
    named = tg.grad(c, argnames=("y", "x"))
    for x in (X, -X):
        same(named(x, y=3.0), tg.grad(f, argnames=("y", "x"))(x, y=3.0))
    assert "f.argnums=1" in c.explain()
    with pytest.raises(ValueError, match="argnums 2 is out of range"):
        tg.grad(c, 2)(X, 3.0)


def test_what_goes_eagerly_is_right():
    c = tg.compile(lambda x: (np.sum(x**2), x * 2))
    for _ in range(4):
        gradient, aux = tg.grad(c, has_aux=True)(X)
        same(gradient, 2 * X)
        same(aux, 2 * X)
    gradient = tg.compile(tg.grad(tg.compile(lambda x: np.sum(x**4))))
    second = tg.compile(tg.grad(lambda x: x**4))
    for x in (X, 2 * X, 3 * X):
        same(gradient(x), 4 * x**3)
        same(tg.grad(second)(x[0]), 12 * x[0] ** 2)
    z = 0.5 + 0.25j
    holomorphic = tg.compile(lambda z: z**3)
    same(tg.grad(holomorphic, holomorphic=True)(z), 3 * z**2)


# --- one row --------------------------------------------------------------------------------------


def around(g):
    return lambda x: g(np.exp(x) - 1.0, 2.0) ** 2 + np.sum(x)


def test_a_call_inside_a_recording_is_one_row():
    c = warm(tg.compile(f), (X, 2.0), (-X, 2.0))
    for x in (X, -X, 2 * X, X):
        same(tg.value_and_grad(around(c))(x), tg.value_and_grad(around(f))(x), 1e-12)
        assert rows(around(c), x) == 1 and rows(around(f), x) == 0
    x = tg.tensor(X, requires_grad=True)
    out = around(c)(x)
    out.backward(retain_graph=True)
    out.backward()
    same(x.grad.numpy(), 2 * tg.grad(around(f))(X), 1e-12)
    assert out.grad_fn is not None


def test_derivatives_of_any_order_through_a_row():
    c = warm(tg.compile(f), (X, 2.0))
    g, h = around(c), around(f)
    along = lambda f: lambda x: tg.jvp(f, (x,), (X,))[1]
    for x in (X, 1.5 * X):
        same(tg.hessian(g)(x), tg.hessian(h)(x), 1e-12)
        same(tg.hvp(g)(x, X), tg.hvp(h)(x, X), 1e-12)
        same(tg.jvp(g, (x,), (X,)), tg.jvp(h, (x,), (X,)), 1e-12)
        same(tg.grad(along(g))(x), tg.grad(along(h))(x), 1e-12)
        same(along(tg.grad(g))(x), along(tg.grad(h))(x), 1e-12)
        third = tg.jacobian(tg.hessian(h))(x)
        same(tg.jacobian(tg.hessian(g))(x), third, 1e-11)
    x = tg.tensor(X, requires_grad=True)
    (gradient,) = tg.autograd.grad(g(x), x, create_graph=True)
    (again,) = tg.autograd.grad(gradient.sum(), x)
    same(again.numpy(), tg.hessian(h)(X).sum(0), 1e-12)
    assert tg.autograd.gradcheck(g, x) and tg.autograd.gradgradcheck(g, x)


@pytest.mark.parametrize("native", [False, True])
def test_results_in_structures(native):
    def g(function, x):
        out = function(np.exp(x), 2.0)
        return out[0].sum() + (out[1]["a"] ** 2).sum() * out[1]["b"]

    c = tg.compile(several, native=native)
    for k in range(6):
        x = X * (1.0 + k)
        found = tg.value_and_grad(lambda x: g(c, x))(x)
        same(found, tg.value_and_grad(lambda x: g(several, x))(x), 1e-12)
        c.wait()
    assert rows(lambda x: g(c, x), X) == 1
    same(tg.hessian(lambda x: g(c, x))(X), tg.hessian(lambda x: g(several, x))(X), 1e-12)
    outer = lambda f: lambda x: f(x**2, 2.0)[1]["a"]
    same(tg.jacobian(outer(c))(X), tg.jacobian(outer(several))(X))
    same(tg.jvp(outer(c), (X,), (X,)), tg.jvp(outer(several), (X,), (X,)))


def test_zero_times_infinity_is_as_in_the_function():
    def g(x):
        return np.sqrt(x), x * 3.0

    c = tg.compile(g)
    for _ in range(4):
        same(tg.grad(lambda x: np.sum(c(x * 1.0)[1]))(np.zeros(2)), np.full(2, 3.0))


def test_what_an_argument_holds_later_does_not_matter():
    c = warm(tg.compile(lambda x: np.sum(x**3)), (X,))
    d = tg.compile(lambda x: x**3)

    def written(function):
        def g(x):
            y = x * 2.0
            out = np.sum(function(y))
            y[0] = 5.0
            return out + np.sum(y)

        return g

    for _ in range(4):
        for one in (c, d):
            same(tg.grad(written(one))(X), tg.grad(written(lambda x: x**3))(X))
            same(tg.hessian(written(one))(X), tg.hessian(written(lambda x: x**3))(X))


def test_arguments_that_make_no_row():
    c = tg.compile(lambda x, n: np.sum(x**n) * 1.0)
    for n in (2, 3, 2):
        for _ in range(3):
            same(tg.grad(lambda x, n=n: c(x * 2.0, n))(X), 2 * n * (2 * X) ** (n - 1), 1e-12)
    mixed = tg.compile(lambda pair: np.sum(pair[0] ** pair[1]))  # an int beside what is recorded
    for _ in range(4):
        same(tg.grad(lambda x: mixed((x * 1.0, 2)))(X), 2 * X)
    keyword = tg.compile(lambda x, *, scale: np.sum(x) * scale)
    for _ in range(4):
        same(tg.grad(lambda s: keyword(X, scale=s * 2.0))(3.0), 2 * X.sum())
        same(tg.grad(lambda x: keyword(x * 2.0, scale=3.0))(X), np.full(3, 6.0))
    always = tg.compile(lambda x: np.sum(x**2), verify="always")
    for _ in range(4):
        same(tg.grad(lambda x: always(x * 1.0))(X), 2 * X)
    for _ in range(4):
        same(tg.grad(lambda x: c(x, 2).astype(np.float32))(X), 2 * X, 1e-6)


def test_inside_another_compiled_function():
    c = warm(tg.compile(f), (X, 2.0))
    outer, plain = tg.compile(around(c)), around(f)
    for x in (X, -X, 2 * X):
        same(outer.value_and_grad(x), tg.value_and_grad(plain)(x), 1e-12)
        same(outer.hessian(x), tg.hessian(plain)(x), 1e-12)
    assert outer._reason is None
    gradient = tg.compile(lambda x: np.sum(tg.grad(c)(x, 2.0) ** 2))
    for x in (X, -X, 2 * X):
        same(gradient.grad(x), tg.grad(lambda x: np.sum(tg.grad(f)(x, 2.0) ** 2))(x), 1e-12)


# --- by names -------------------------------------------------------------------------------------


def named(x, y=2.0, *, rate, scale=1.0):
    return np.sum(x**2 * rate) * scale**3 * y


def test_methods_of_functions_whose_arguments_are_named():
    one, two = tg.compile(named, argnames="rate"), tg.compile(named, argnames=("x", "scale"))
    of_two = lambda x, scale: named(x, rate=2.0, scale=scale)
    of_pair = lambda pair: of_two(*pair)
    for x in (X, 2 * X, -X):
        assert one.hvp(1.0, x, rate=2.0) == 0.0
        same(one.jvp(3.0, x, rate=2.0), (named(x, rate=2.0), named(x, rate=3.0)))
        found = two.hvp((X, 1.0), x, rate=2.0, scale=3.0)
        same(found, tg.hvp(of_pair)((x, 3.0), (X, 1.0)))
        found = two.jvp((X, 1.0), x, rate=2.0, scale=3.0)
        same(found, tg.jvp(of_two, (x, 3.0), (X, 1.0)))
        value, back = two.vjp(x, rate=2.0, scale=3.0)
        same(value, of_two(x, 3.0))
        same(back(2.0), tg.vjp(of_two, x, 3.0)[1](2.0))
        same(one.vjp(x, rate=2.0)[1](2.0), 2 * named(x, rate=1.0))
        gradient = tg.grad(named, argnames=("x", "scale"))(x, rate=2.0, scale=3.0)
        for c in (one, two):
            same(tg.grad(c, argnames=("x", "scale"))(x, rate=2.0, scale=3.0), gradient)
    assert tg.grad(two, argnames=("x", "scale")) == two.grad
    assert "by x, scale" in repr(copy.copy(two)) and "by rate" in repr(copy.deepcopy(one))


def test_maps_of_functions_whose_arguments_are_named():
    one, two = tg.compile(named, argnames="rate"), tg.compile(named, argnames=("x", "scale"))
    data, scales = np.arange(12.0).reshape(4, 3), np.arange(1.0, 5.0)
    values, found = two.map(data, rate=2.0, scale=scales, in_axes={"rate": None})
    for k, (x, scale) in enumerate(zip(data, scales, strict=True)):
        same(values[k], named(x, rate=2.0, scale=scale), 1e-12)
        expected = tg.grad(named, argnames=("x", "scale"))(x, rate=2.0, scale=scale)
        same((found[0][k], float(found[1][k])), expected, 1e-12)
    total, gradient = one.sum(data, rate=scales)
    same(gradient, (data**2).sum(1) * 2)
    same(total, (gradient * scales).sum(), 1e-12)
    with pytest.raises(ValueError, match=r"in_axes names \['other'\]"):
        one.map(data, rate=scales, in_axes={"other": None})


# --- copies ---------------------------------------------------------------------------------------


@needs("numba-reader")
def test_repr_and_clear():
    c = tg.compile(f)
    assert repr(c) == "<compiled function f: not called yet>"
    warm(c, (X, 2.0), (-X, 2.0))
    assert repr(c) == "<compiled function f: 1 signature, 1 program, 1 graph>"
    tg.grad(c, 1)(X, 2.0)
    c.clear()
    assert repr(c) == "<compiled function f: not called yet>" and not c._derived
    same(c.grad(X, 2.0), tg.grad(f)(X, 2.0))
    state = {"rate": 1.0}
    reads = tg.compile(lambda x: np.sum(x) * state["rate"])
    warm(reads, (X,))
    state["rate"] = 2.0
    reads.clear()
    same(reads(X), 2 * X.sum())
    with pytest.warns(RuntimeWarning, match="without a program"):
        eager = tg.compile(lambda x: np.float16(2.0) * x)
        eager(np.float16(1.0))
    assert "runs eagerly: an argument has dtype float16" in repr(eager)


@needs("numba-reader")
def test_copies_have_the_programs():
    c = warm(tg.compile(f), (X, 2.0), (-X, 2.0))
    for made in (copy.copy(c), copy.deepcopy(c)):
        assert "1 signature, 1 program, 1 graph" in repr(made)
        same(made.grad(2 * X, 2.0), tg.grad(f)(2 * X, 2.0))
        made.clear()
    assert "1 graph" in repr(c)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_pickles_in_process_pools(method):
    for c in (
        compiled_functions.decorated,
        tg.compile(compiled_functions.undecorated, native=True),
    ):
        warm(c, (X,))
        c.hessian(X)
        c.wait()
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            *found, native = pool.submit(compiled_functions.computed, c, X).result()
        assert native == [True]
        same(tuple(found), (*c.value_and_grad(X), c.hessian(X)), 1e-12)


def test_pickles_keep_settings(tmp_path):
    c = tg.compile(compiled_functions.undecorated, verify="never", on_branch="error")
    empty = pickle.loads(pickle.dumps(c))
    assert "not called yet" in repr(empty) and empty._settings == c._settings
    warm(c, (X,))
    again = pickle.loads(pickle.dumps(c))
    assert "1 program" in repr(again) and again._f is compiled_functions.undecorated
    same(again.grad(2 * X), 12 * X**2, 1e-13)
    by_name = tg.compile(compiled_functions.undecorated, argnames="x")
    same(by_name.grad(x=X), 3 * X**2)
    same(pickle.loads(pickle.dumps(by_name)).grad(x=X), 3 * X**2)
    gradient = pickle.loads(pickle.dumps(tg.compile(tg.grad(compiled_functions.undecorated))))
    same(gradient(X), 3 * X**2)
    c.save(tmp_path / "c.npz")
    loaded = pickle.loads(pickle.dumps(tg.load(tmp_path / "c.npz")))
    same(loaded.grad(X), 3 * X**2)
    same(copy.deepcopy(loaded).grad(X), 3 * X**2)
    with pytest.raises(RuntimeError, match="nothing would be left"):
        loaded.clear()
    with pytest.raises(pickle.PicklingError, match="cannot be imported by its name"):
        pickle.dumps(tg.compile(lambda x: x))


# --- threads --------------------------------------------------------------------------------------


def test_eight_threads_with_changing_signatures():
    c, wrong = tg.compile(f), []

    def work(k):
        generator = np.random.default_rng(k)
        try:
            for i in range(60):
                x, y = generator.normal(size=generator.integers(1, 6)), generator.normal()
                if i % 4 == 0:
                    same(c.grad(x, y), tg.grad(f)(x, y), 1e-10)
                elif i % 4 == 1:
                    same(c(x, y), f(x, y), 1e-10)
                elif i % 4 == 2:
                    same(tg.grad(c, 1)(x, y), tg.grad(f, 1)(x, y), 1e-10)
                else:
                    g = tg.grad(lambda x, y=y: c(x * 2.0, y))
                    same(g(x), tg.grad(lambda x, y=y: f(x * 2.0, y))(x), 1e-10)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
