"""Hooks registered in functions that transforms differentiate, compared with PyTorch's autograd."""

import numpy as np
import pytest
from compiled import programs, same

import tapegrad as tg
from tapegrad import autograd

torch = pytest.importorskip("torch")

X = np.array([0.5, -0.7, 1.2])
IGNORED = "ignore:.*(registers a hook|retains a gradient|no batching rule)"
pytestmark = pytest.mark.filterwarnings(IGNORED)


def of_result(lib, x):
    y = lib.sin(x)
    y.register_hook(lambda g: g * 3)
    return (y * y).sum()


def of_result_that_is_saved(lib, x):
    """Which the second derivative passes, too."""
    y = lib.exp(x)
    y.register_hook(lambda g: g * 3)
    return y.sum()


def of_argument(lib, x):
    x.register_hook(lambda g: g * 2)
    y = x * x
    x.register_hook(lambda g: g + x)
    return (y * x).sum()


def clipping(lib, x):
    y = x**3
    y.register_hook(lambda g: lib.clip(g, -0.5, 0.5))
    return (y * lib.exp(x)).sum()


def several(lib, x):
    y = lib.cos(x)  # whose derivative does not read y, which a second pass would reach
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: None)
    y.register_hook(lambda g: g * g)
    removed = y.register_hook(lambda g: g * 100)
    z = y * y
    removed.remove()
    z.register_hook(lambda g: -g)
    return (z * y).sum() + y.sum()


def of_a_view(lib, x):
    y = x * x
    z = y[1:]
    z.register_hook(lambda g: g * 5)
    return (z * z).sum() + (y**3).sum()


def of_the_output(lib, x):
    y = (x**3).sum()
    y.register_hook(lambda g: g * 7)
    return y


def not_on_the_way(lib, x):
    y = x * 2.0
    y.register_hook(lambda g: g * 100)
    z = lib.sin(x)
    z.register_hook(lambda g: g * 2)
    return (z * z).sum()


def of_a_node(lib, x):
    y = lib.sin(x)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 4,))
    return (y * y).sum()


def late(lib, x):
    y = lib.sin(x)
    z = y * y
    y.register_hook(lambda g: g * 3)
    return z.sum()


SAME = [
    of_result,
    of_result_that_is_saved,
    of_argument,
    clipping,
    several,
    of_the_output,
    not_on_the_way,
    of_a_node,
    late,
]


def torch_derivatives(f, x, seed=1.0):
    t = torch.tensor(x, requires_grad=True)
    seeds = torch.tensor(seed, dtype=torch.float64)
    (g,) = torch.autograd.grad(f(torch, t), t, seeds, create_graph=True)
    rows = [torch.autograd.grad(one, t, retain_graph=True)[0] for one in g]
    return g.detach().numpy(), np.stack([row.numpy() for row in rows])


def torch_product(f, x, v):
    """The second derivative along v; hooks need not be linear."""
    t = torch.tensor(x, requires_grad=True)
    (g,) = torch.autograd.grad(f(torch, t), t, create_graph=True)
    return torch.autograd.grad(g, t, torch.tensor(v))[0].numpy()


@pytest.mark.parametrize("f", SAME)
@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_derivatives_are_those_of_pytorch(f, kind):
    first, second = torch_derivatives(f, X)
    of = lambda x: f(tg, x)
    c, v = tg.compile(of), np.array([1.0, -2.0, 0.5])
    of, along = c if kind == "compiled" else of, torch_product(f, X, v)
    for _ in range(3):
        same(tg.grad(of)(X), first)
        same(tg.value_and_grad(of)(X)[1], first)
        if kind == "eager":  # c.vjp calls the function with arrays, too, which have no hooks
            same(tg.vjp(of, X)[1](-2.0)[0], torch_derivatives(f, X, -2.0)[0])
        same(tg.jacobian(of)(X), first)
        same(tg.hessian(of)(X), second)
        same(tg.jacobian(tg.grad(of))(X), second)
        same(tg.hvp(of)(X, v), along)
    if kind == "compiled":
        assert programs(c) == 0


@pytest.mark.parametrize("f", SAME)
def test_other_transforms(f):
    first, second = torch_derivatives(f, X)
    ours, v = lambda x: f(tg, x), np.array([1.0, -2.0, 0.5])
    same(tg.elementwise_grad(ours)(X), first)
    rows, along = np.stack([X, 0.5 * X]), torch_product(f, X, v)
    wanted = np.stack([torch_derivatives(f, row)[0] for row in rows])
    same(tg.vmap(tg.grad(ours))(rows), wanted)
    same(tg.grad(lambda x: np.sum(tg.vmap(ours)(x)))(rows), wanted)
    t = tg.tensor(X)
    functional = autograd.functional
    same(functional.vjp(ours, t)[1].numpy(), first)
    same(functional.jacobian(ours, t).numpy(), first)
    same(functional.hessian(ours, t).numpy(), second)
    same(functional.hvp(ours, t, tg.tensor(v))[1].numpy(), along)
    same(functional.vhp(ours, t, tg.tensor(v))[1].numpy(), along)
    x = tg.tensor(X, requires_grad=True)
    same(tg.grad(ours)(x).detach().numpy(), first)  # recorded: it depends on x
    same(autograd.grad(tg.grad(ours)(x) @ v, x)[0].numpy(), along)


def test_jacobians_of_several_results():
    def f(lib, x):
        y = lib.sin(x)
        y.register_hook(lambda g: g * g + 1.0)
        return y * y

    t = torch.tensor(X, requires_grad=True)
    wanted = torch.autograd.functional.jacobian(lambda x: f(torch, x), t).numpy()
    same(tg.jacobian(lambda x: f(tg, x))(X), wanted)
    c = tg.compile(lambda x: f(tg, x))
    for _ in range(3):
        same(c.jacobian(X), wanted)
    many = np.linspace(-1.0, 1.0, 20)  # more rows than one sweep carries
    t = torch.tensor(many, requires_grad=True)
    wanted = torch.autograd.functional.jacobian(lambda x: f(torch, x), t).numpy()
    same(tg.jacobian(lambda x: f(tg, x))(many), wanted)


def test_numbers_and_several_arguments():
    """Elements of arrays are numbers, whose hooks PyTorch calls in the same way."""

    def f(lib, x, k):
        total = 0.0 * k
        for n in range(3):
            y = x[n] * k
            y.register_hook(lambda g, n=n: g * (n + 1))
            total = total + lib.sin(y)
        return total * k

    t, k = torch.tensor(X, requires_grad=True), torch.tensor(1.5, dtype=torch.float64)
    k.requires_grad_()
    wanted = torch.autograd.grad(f(torch, t, k), (t, k))
    found = tg.grad(lambda x, k: f(tg, x, k), (0, 1))(X, 1.5)
    same(found[0], wanted[0].numpy())
    same(found[1], wanted[1].item())
    found = tg.grad(lambda p: f(tg, p["x"], p["k"]))({"x": X, "k": 1.5})
    same(found["x"], wanted[0].numpy())


def test_hooks_of_outer_rows_are_called_by_the_outer_transform():
    calls = []

    def f(x):
        y = np.sin(x)
        y.register_hook(lambda g: (calls.append(1), g * 3)[1])
        inner = tg.grad(lambda z: np.sum(z * z * y))(x)
        assert not calls
        return np.sum(inner * inner)

    found = tg.grad(f)(X)
    y, dy = np.sin(X), np.cos(X)
    same(found, 8.0 * X * y**2 + 3.0 * 8.0 * X**2 * y * dy)
    assert len(calls) == 1


def test_retained_gradients(not_entered):  # where a kept tensor stays one
    kept = []

    def f(x):
        y = np.sin(x)
        y.retain_grad()
        y.register_hook(lambda g: g * 3)
        kept.append(y)
        return np.sum(y * y)

    same(tg.grad(f)(X), 6.0 * np.sin(X) * np.cos(X))
    same(np.asarray(kept[-1].grad), 6.0 * np.sin(X))
    _, back = tg.vjp(f, X)
    back(1.0)
    back(1.0)
    same(np.asarray(kept[-1].grad), 12.0 * np.sin(X))
    c = tg.compile(f)
    for _ in range(3):
        same(c.grad(X), 6.0 * np.sin(X) * np.cos(X))
        same(np.asarray(kept[-1].grad), 6.0 * np.sin(X))


def test_hooks_of_nodes_that_see_the_gradients_of_operands():
    def f(x):
        y = x * 2.0
        y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 5.0, None))
        return np.sum(y * y)

    same(tg.grad(f)(X), 40.0 * X)
    same(tg.jacobian(f)(X), 40.0 * X)
    for second in (tg.hessian(f), lambda x: tg.hvp(f)(x, x)):
        with pytest.raises(NotImplementedError, match="hooks of a grad_fn are not called"):
            second(X)


def test_forward_mode_refuses():
    for f in (lambda x: of_result(tg, x), lambda x: of_a_node(tg, x)):
        c = tg.compile(f)
        for call in (
            lambda f=f: tg.jvp(f, (X,), (X,)),
            lambda c=c: c.jvp((X,), (X,)),
            lambda f=f: autograd.functional.jvp(f, tg.tensor(X), tg.tensor(X)),
            lambda f=f: tg.jvp(tg.grad(f), (X,), (X,)),
        ):
            with pytest.raises(NotImplementedError, match="forward mode computes no gradients"):
                call()


def test_forward_mode_beside_hooks():
    """One that is not on the way, and a retained gradient, change nothing."""

    def f(x):
        y = np.sin(x)
        y.register_hook(lambda g: g * 3)
        z = x * x
        z.retain_grad()
        return np.sum(z)

    value, tangent = tg.jvp(f, (X,), (X,))
    same(tangent, 2.0 * np.sum(X**2))


def test_where_no_hook_can_be():
    def of_the_end(x):
        (x * 1.0).grad_fn.next_functions[0][0].register_hook(lambda i, o: None)
        return np.sum(x)

    with pytest.raises(RuntimeError, match="the node is the end of the graph at an input of a"):
        tg.grad(of_the_end)(X)

    def of_accumulation(x):
        x.register_post_accumulate_grad_hook(lambda t: None)
        return np.sum(x)

    with pytest.raises(RuntimeError, match="the tensor is not an input made with"):
        tg.grad(of_accumulation)(X)


def test_written_tensors():
    """Hooks belong to the value at their registration."""

    def before(lib, x):
        y = x * 1.0
        y.register_hook(lambda g: g * 3)
        y[0] = 5.0
        return (y * y).sum()

    def after(lib, x):
        y = x * 1.0
        y[0] = x[1] * x[2]
        y.register_hook(lambda g: g * 3)
        return (y * y).sum()

    for f in (before, after):
        first, _ = torch_derivatives(f, X)
        same(tg.grad(lambda x, f=f: f(tg, x))(X), first)
        same(tg.jacobian(lambda x, f=f: f(tg, x))(X), first)
        try:
            second = tg.hessian(lambda x, f=f: f(tg, x))(X)
        except NotImplementedError as error:
            assert "copy()" in str(error)
        else:
            same(second, torch_derivatives(f, X)[1])


def test_written_arguments():
    def f(x):
        y = np.sin(x)
        y.register_hook(lambda g: g * 3)
        x[0] = 2.0
        return np.sum(y * y) + np.sum(x * x)

    wanted = 6.0 * np.sin(X) * np.cos(X) + 2.0 * X * np.array([0.0, 1.0, 1.0])
    same(tg.grad(f)(X), wanted)
    same(tg.vjp(f, X)[1](1.0)[0], wanted)
    with pytest.raises(NotImplementedError, match="writes to its argument in place"):
        tg.hessian(f)(X)


def test_other_writes_do_not_hide_hooks():
    def f(lib, x):
        y = lib.exp(x)
        y.register_hook(lambda g: g * 3)
        z = y * 1.0
        z[1] = y[0] * y[2]
        return (z * z).sum()

    first, second = torch_derivatives(f, X)
    same(tg.grad(lambda x: f(tg, x))(X), first)
    same(tg.hessian(lambda x: f(tg, x))(X), second)


def test_views():
    def f(lib, x):
        y = x * x
        z = y[1:]
        z.register_hook(lambda g: g * 5)
        return (z * z).sum()

    first, second = torch_derivatives(f, X)
    same(tg.grad(lambda x: f(tg, x))(X), first)
    same(tg.hessian(lambda x: f(tg, x))(X), second)


def test_float32_and_errors_of_hooks():
    x = X.astype(np.float32)
    found = tg.grad(lambda x: of_result(tg, x))(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 6.0 * np.sin(X) * np.cos(X), rtol=1e-6)

    def failing(x):
        y = x * 2.0
        y.register_hook(lambda g: 1 / 0)
        return np.sum(y)

    def misshapen(x):
        y = x * 2.0
        y.register_hook(lambda g: g[:1])
        return np.sum(y)

    for of in (tg.grad, tg.jacobian, tg.hessian, lambda f: tg.compile(f).grad):
        with pytest.raises(ZeroDivisionError):
            of(failing)(X)
        with pytest.raises(RuntimeError, match="the hook <lambda> returned shape"):
            of(misshapen)(X)
    same(tg.grad(lambda x: np.sum(x * x))(X), 2.0 * X)


def test_a_compiled_function_inside_others():
    c = tg.compile(lambda x: of_result(tg, x))
    for _ in range(4):
        x = tg.tensor(X, requires_grad=True)
        c(x).backward()
        same(x.grad.numpy(), 6.0 * np.sin(X) * np.cos(X))
        same(tg.grad(lambda x: c(x) * 2.0)(X), 12.0 * np.sin(X) * np.cos(X))


def test_hooks_in_a_branch():
    def f(x):
        y = np.sin(x)
        if x[0] > 0.0:
            y.register_hook(lambda g: g * 3)
        return np.sum(y)

    c = tg.compile(f)
    for x in (-X, 2.0 * -X, X, -X, X):
        same(c.grad(x), (3.0 if x[0] > 0.0 else 1.0) * np.cos(x))
