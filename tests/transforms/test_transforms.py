"""hessian, hvp, vmap and Jacobians of structures: against PyTorch, closed forms, one another."""

import numpy as np
import pytest

import tapegrad as tg

RNG = np.random.default_rng(11)
P = {"a": RNG.normal(size=3), "b": [RNG.normal(size=(3, 2)), 0.7]}


def energy(p):
    return np.sum(np.sin(p["a"]) @ p["b"][0]) * p["b"][1] ** 2


def close(found, wanted, rtol=1e-12):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-13)


# --- hessian and hvp --------------------------------------------------------------------------


def test_hessian_of_a_structure():
    blocks = tg.hessian(energy)(P)
    assert blocks["a"]["b"][0].shape == (3, 3, 2)
    assert isinstance(blocks["b"][1]["b"][1], float)
    close(blocks["b"][1]["b"][1], 2 * np.sum(np.sin(P["a"]) @ P["b"][0]))
    close(blocks["a"]["a"], np.diag(-np.sin(P["a"]) * P["b"][0].sum(1) * P["b"][1] ** 2))
    close(blocks["a"]["b"][1], np.transpose(blocks["b"][1]["a"]))


def test_hessian_of_several_arguments_is_pytorchs():
    torch = pytest.importorskip("torch")
    x, y = RNG.normal(size=(2, 3)), RNG.normal(size=3)
    found = tg.hessian(lambda x, y: np.sum(np.exp(x * y) * y), (0, 1))(x, y)
    wanted = torch.autograd.functional.hessian(
        lambda x, y: (torch.exp(x * y) * y).sum(), (torch.tensor(x), torch.tensor(y))
    )
    for mine, other in zip(found, wanted, strict=True):
        for block, right in zip(mine, other, strict=True):
            close(block, right.numpy())


def test_hessian_inside_grad():
    f = lambda x: np.sum(x**4)
    x = np.array([0.5, -1.5])
    close(tg.grad(lambda x: np.sum(tg.hessian(f)(x)))(x), 24 * x)
    close(tg.jacobian(tg.hessian(f))(x)[1, 1], [0.0, 24 * x[1]])
    close(tg.jvp(tg.hessian(f), (x,), (np.ones(2),))[1], np.diag(24 * x))


def test_hessian_keeps_keyword_arguments():
    assert tg.hessian(lambda x, *, k: k * x**3)(2.0, k=5.0) == 60.0
    assert tg.jacobian(lambda x, *, k: k * x**3)(2.0, k=5.0) == 60.0


def test_hvp_is_the_product_with_the_hessian():
    f = lambda x, c: np.sum(np.sin(x) * np.exp(x[::-1])) * c
    x, v = RNG.normal(size=(2, 4))
    close(tg.hvp(f)(x, v, 3.0), tg.hessian(f)(x, 3.0) @ v)
    found = tg.hvp(energy)(P, P)
    wanted = tg.jvp(tg.grad(energy), (P,), (P,))[1]
    close(found["a"], wanted["a"])
    close(found["b"][0], wanted["b"][0])
    close(found["b"][1], wanted["b"][1])
    close(tg.grad(lambda v: np.sum(tg.hvp(f)(x, v, 1.0)))(v), tg.hessian(f)(x, 1.0).sum(0))


def test_hvp_serves_scipy():
    optimize = pytest.importorskip("scipy.optimize")

    def rosenbrock(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    found = optimize.minimize(
        rosenbrock,
        np.zeros(4),
        jac=tg.grad(rosenbrock),
        hessp=tg.hvp(rosenbrock),
        method="trust-ncg",
    )
    assert found.success
    close(found.x, np.ones(4), 1e-5)


# --- jacobian ---------------------------------------------------------------------------------


def test_jacobian_of_a_structure():
    x = np.array([1.0, 2.0])
    first, second = tg.jacobian(lambda x: (x * x, {"k": x[0] * x[1], "c": 3.0}))(x)
    close(first, np.diag(2 * x))
    close(second["k"], x[::-1])
    close(second["c"], [0.0, 0.0])


def test_a_list_is_an_array_for_jacobian():
    close(
        tg.jacobian(lambda x: [x[0] * x[1], x[0]])(np.array([2.0, 3.0])), [[3.0, 2.0], [1.0, 0.0]]
    )


def test_jacobian_of_gradients_by_name():
    found = tg.jacobian(tg.grad(lambda p: p["x"] ** 2 * p["y"]))({"x": 3.0, "y": 5.0})
    assert found == {"x": {"x": 10.0, "y": 6.0}, "y": {"x": 6.0, "y": 0.0}}


def test_nested_results_without_elements():
    found = tg.jacobian(lambda x: x[:0])(np.ones(3))
    assert found.shape == (0, 3)
    inside = tg.grad(lambda x: np.sum(tg.jacobian(lambda y: (y * x)[:0])(x)) + x[0])(np.ones(2))
    assert inside.tolist() == [1.0, 0.0]


# --- vmap -------------------------------------------------------------------------------------


def test_vmap_is_pytorchs():
    torch = pytest.importorskip("torch")
    a, b = RNG.normal(size=(4, 3, 2)), RNG.normal(size=(2, 4))
    for in_axes, out_axes in [((0, 1), 0), ((0, 1), 1), ((0, 1), -1), ((0, None), 0)]:
        vector = b if in_axes[1] is not None else b[:, 0]
        found = tg.vmap(lambda x, y: x @ y, in_axes, out_axes)(a, vector)
        wanted = torch.vmap(lambda x, y: x @ y, in_axes, out_axes)(
            torch.tensor(a), torch.tensor(vector)
        )
        assert isinstance(found, np.ndarray)
        close(found, wanted.numpy())


def test_vmap_of_structures():
    batch = {"a": RNG.normal(size=(5, 3)), "b": [RNG.normal(size=(3, 2, 5)), RNG.normal(size=5)]}
    axes = ({"a": 0, "b": (2, 0)},)

    def both(p):
        return {"e": energy(p), "s": (p["a"],)}

    found = tg.vmap(both, axes, {"e": 0, "s": 1})(batch)
    parts = [{"a": batch["a"][k], "b": [batch["b"][0][..., k], batch["b"][1][k]]} for k in range(5)]
    close(found["e"], [energy(p) for p in parts])
    close(found["s"][0], batch["a"].T)


def test_vmap_may_branch_and_be_differentiated():
    f = tg.vmap(lambda x: x**2 if x > 0 else -x)
    x = np.array([1.0, -2.0, 3.0])
    close(f(x), [1.0, 2.0, 9.0])
    close(tg.grad(lambda x: np.sum(f(x)))(x), [2.0, -1.0, 6.0])
    close(tg.jacobian(f)(x), np.diag([2.0, -1.0, 6.0]))
    close(tg.jvp(f, (x,), (np.ones(3),))[1], [2.0, -1.0, 6.0])
    t = tg.tensor(x, requires_grad=True)
    f(t).sum().backward()
    close(t.grad.numpy(), [2.0, -1.0, 6.0])


def test_vmap_of_transforms_and_of_itself():
    x, y = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
    close(tg.vmap(tg.grad(lambda x: np.sum(x**3)))(x), 3 * x**2)
    close(tg.vmap(tg.vmap(np.dot, (None, 0)), (0, None))(x, y), x @ y.T)


def test_vmap_passes_keyword_arguments():
    close(tg.vmap(lambda x, *, k: x[k])(np.arange(6.0).reshape(2, 3), k=1), [1.0, 4.0])


@pytest.mark.parametrize(
    "call,text",
    [
        (lambda x: tg.vmap(np.add)(x, x[:2]), r"have \[3, 2\] elements along their axes"),
        (lambda x: tg.vmap(np.add, None)(x, x), r"have \[\] elements"),
        (lambda x: tg.vmap(np.sin)(x[:0]), r"have \[0\] elements"),
        (lambda x: tg.vmap(np.sin, 1)(x), r"in_axes has 1 for an argument of shape \(3,\)"),
        (lambda x: tg.vmap(np.sin)(2.0), r"in_axes has 0 for an argument of shape \(\)"),
        (lambda x: tg.vmap(np.add, (0,))(x, x), r"in_axes has \(0,\) for a tuple of 2"),
        (lambda x: tg.vmap(np.sin, ((0, 0),))(x), r"in_axes has \(0, 0\) for a ndarray; give"),
        (lambda x: tg.vmap(np.sin, 0, None)(x), "out_axes has None"),
        (lambda x: tg.vmap(np.sin, 0, 2)(x), r"out_axes has 2 for results of shape \(\)"),
        (
            lambda x: tg.vmap(lambda a: x[: int(a)])(x),
            r"returned shapes \[\(0,\), \(1,\), \(2,\)\]",
        ),
    ],
)
def test_vmap_errors(call, text):
    with pytest.raises(ValueError, match=f"tapegrad.vmap: .*{text}"):
        call(np.arange(3.0))


# --- modes ------------------------------------------------------------------------------------


def test_transforms_record_inside_no_grad():
    x = np.array([1.0, 2.0])
    with tg.no_grad():
        assert tg.jvp(np.sin, (0.0,), (1.0,)) == (0.0, 1.0)
        close(tg.hvp(lambda x: np.sum(x**3))(x, x), 6 * x * x)
        close(tg.hessian(lambda x: np.sum(x**3))(x), np.diag(6 * x))
        found = tg.autograd.functional.hessian(lambda x: (x**3).sum(), tg.tensor(x))
    close(found.numpy(), np.diag(6 * x))


def test_a_tensor_that_requires_grad_is_differentiated_through():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    _, tangent = tg.jvp(lambda x: x * w, (w,), (w,))
    tangent.sum().backward()
    close(w.grad.numpy(), [2.0, 4.0])


@pytest.mark.parametrize("argnums", [(0, 0), (0, -2), (1, 0, -1), (-1, 1)])
def test_an_argument_named_twice(argnums):
    """Each place has its derivative."""
    x, y = np.array([0.72, -1.2, 1.9]), np.array([0.5, 2.0, 3.0])

    def f(x, y):
        return np.sum(x**3 * y**2)

    first = [3 * x**2 * y**2, 2 * x**3 * y]
    second = [[6 * x * y**2, 6 * x**2 * y], [6 * x**2 * y, 2 * x**3]]
    compiled = tg.compile(f, argnums=argnums)
    for gradient in (tg.grad(f, argnums), compiled.grad, compiled.grad, compiled.grad):
        close(gradient(x, y), [first[k] for k in argnums])
    close(tg.value_and_grad(f, argnums)(x, y)[1], [first[k] for k in argnums])
    close(compiled.map(np.stack([x, x]), np.stack([y, y]))[1], [[first[k]] * 2 for k in argnums])
    for hessian in (tg.hessian(f, argnums), compiled.hessian):
        blocks = hessian(x, y)
        for j, row in zip(argnums, blocks, strict=True):
            close(row, [np.diag(second[j][k]) for k in argnums])
    products = tg.jacobian(lambda x, y: x * y, argnums)(x, y)
    close(products, [np.diag((y, x)[k]) for k in argnums])
    with pytest.raises(ValueError, match="out needs argnums that name each argument once"):
        compiled.grad(x, y, out=tuple(np.zeros(3) for _ in argnums))


def test_jacobians_of_constants_have_the_dtype_of_the_input():
    x = np.ones(3, np.float32)
    for f in (lambda x: np.ones(2), lambda x: np.array([1, 2]), lambda x: x[:0]):
        found = tg.jacobian(f)(x)
        assert found.dtype == np.float32 and not found.any()


@pytest.mark.parametrize("result", [None, "text", object(), (1.0, None), np.array(["a"])])
def test_results_that_are_no_numbers_are_refused(result):
    """A function without `return` had a Jacobian of zeros."""
    x = np.ones(2)
    for transform in (
        lambda: tg.jacobian(lambda x: result)(x),
        lambda: tg.jvp(lambda x: result, (x,), (x,)),
        lambda: tg.vjp(lambda x: result, x),
        lambda: tg.grad(lambda y: np.sum(y) + tg.jvp(lambda x: result, (y,), (x,))[1])(x),
    ):
        with pytest.raises(TypeError, match="the function returned .*must be a number"):
            transform()
