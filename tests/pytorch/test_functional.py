"""tg.autograd.functional against torch.autograd.functional: several inputs and outputs, errors."""

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")
ours, theirs = tg.autograd.functional, torch.autograd.functional
RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(2, 3)), RNG.normal(size=3)
SCALAR = np.array(0.7)


class Kit:
    """The functions that both libraries have, under one name."""

    def __init__(self, module):
        self.sin, self.exp = module.sin, module.exp


def elements(kit, a, b):
    return kit.sin(a) * b


def several(kit, a, b):
    return a @ b, kit.exp(b), (a * b).sum()


def one(kit, a):
    return kit.exp(a) * a


def independent(kit, a, b):
    return kit.sin(a)


FUNCTIONS = {"elements": (elements, (A, B)), "several": (several, (A, B)), "one": (one, (A,))}
FUNCTIONS |= {"independent": (independent, (A, B)), "scalar": (one, (SCALAR,))}
ENERGIES = {
    "two": (lambda kit, a, b: (kit.sin(a) * b * b).sum(), (A, B)),
    "one": (lambda kit, a: (kit.exp(a) * a).sum(), (A,)),
    "scalar": (lambda kit, a: kit.exp(a) * a, (SCALAR,)),
    "linear": (lambda kit, a, b: (a * 2.0).sum() + (b * b).sum(), (A, B)),
}


def pair(f, arrays, requires_grad=False):
    """The function and its inputs in both libraries; one input is not in a tuple."""
    mine = tuple(tg.tensor(a, requires_grad=requires_grad) for a in arrays)
    other = tuple(torch.tensor(a, requires_grad=requires_grad) for a in arrays)
    if len(arrays) == 1:
        mine, other = mine[0], other[0]
    return (lambda *x: f(Kit(np), *x)), mine, (lambda *x: f(Kit(torch), *x)), other


def equal(mine, other, rtol=1e-12):
    assert isinstance(mine, tuple) == isinstance(other, (tuple, list))
    if isinstance(mine, tuple):
        assert len(mine) == len(other)
        for m, o in zip(mine, other, strict=True):
            equal(m, o, rtol)
        return
    assert isinstance(mine, tg.Tensor)
    assert mine.shape == tuple(other.shape)
    np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=rtol, atol=1e-14)


def flat(results):
    if isinstance(results, (tuple, list)):
        return [leaf for part in results for leaf in flat(part)]
    return [results]


def vectors(likes, requires_grad=False):
    """One random vector for each, in both libraries."""
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=tuple(like.shape)) for like in likes]
    mine = tuple(tg.tensor(a, requires_grad=requires_grad) for a in arrays)
    return mine, tuple(torch.tensor(a, requires_grad=requires_grad) for a in arrays)


def unpacked(many, given):
    return given if many else given[0]


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp_and_jvp(name):
    f, mine, g, other = pair(*FUNCTIONS[name])
    out = g(*other) if isinstance(other, tuple) else g(other)
    for method, likes in (("vjp", out), ("jvp", other)):
        many = isinstance(likes, tuple)
        v, u = vectors(flat(likes))
        found = getattr(ours, method)(f, mine, unpacked(many, v))
        equal(found, getattr(theirs, method)(g, other, unpacked(many, u)))
        assert not any(t.requires_grad for t in flat(found))


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian(name, strategy):
    f, mine, g, other = pair(*FUNCTIONS[name])
    found = ours.jacobian(f, mine, vectorize=True, strategy=strategy)
    equal(found, theirs.jacobian(g, other))


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", ENERGIES)
def test_hessian(name, strategy):
    f, mine, g, other = pair(*ENERGIES[name])
    found = ours.hessian(f, mine, outer_jacobian_strategy=strategy)
    equal(found, theirs.hessian(g, other))


@pytest.mark.parametrize("method", ["vhp", "hvp"])
@pytest.mark.parametrize("name", ENERGIES)
def test_products_with_hessians(name, method):
    f, mine, g, other = pair(*ENERGIES[name])
    many = isinstance(other, tuple)
    v, u = vectors(flat(other))
    found = getattr(ours, method)(f, mine, unpacked(many, v))
    equal(found, getattr(theirs, method)(g, other, unpacked(many, u)))


def test_a_vector_may_be_left_out_for_one_element():
    f, mine, g, other = pair(*ENERGIES["scalar"])
    for method in ("vjp", "jvp", "vhp", "hvp"):
        equal(getattr(ours, method)(f, mine), getattr(theirs, method)(g, other))


def test_layers_of_the_tour():
    """Linear 4 → 2, and an average pool of a 2×2×4×4 array."""
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(2, 4)), rng.normal(size=4)
    equal(ours.jacobian(lambda x: w @ x, tg.tensor(x)), torch.tensor(w))
    image = rng.normal(size=(2, 2, 4, 4))
    pool = lambda x: x.reshape(2, 2, 2, 2, 2, 2).mean((3, 5))
    wanted = theirs.jacobian(torch.nn.AvgPool2d(2), torch.tensor(image))
    equal(ours.jacobian(pool, tg.tensor(image)), wanted)


def test_arrays_and_numbers_may_be_inputs():
    found = ours.jacobian(lambda a, b: a * b, (np.array([1.0, 2.0]), 3.0))
    assert [t.numpy().tolist() for t in found] == [[[3.0, 0.0], [0.0, 3.0]], [1.0, 2.0]]


# --- create_graph -----------------------------------------------------------------------------


def differentiate(results, inputs, library):
    """Gradients of the sum of cosines of all results."""
    total = sum(library.cos(r).sum() for r in flat(results))
    total.backward()
    return tuple(x.grad for x in inputs)


CALLS = {
    "vjp": lambda module, f, x, v, u: module.vjp(f, x, u, create_graph=True)[1],
    "jvp": lambda module, f, x, v, u: module.jvp(f, x, v, create_graph=True)[1],
    "jacobian": lambda module, f, x, v, u: module.jacobian(f, x, create_graph=True),
}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("name", ["elements", "several"])
def test_derivatives_with_a_graph(name, method):
    f, mine, g, other = pair(*FUNCTIONS[name], requires_grad=True)
    outs = g(*other)
    v, v2 = vectors(other, True)
    u, u2 = vectors(flat(outs), True)
    many = isinstance(outs, tuple)
    found = CALLS[method](ours, f, mine, v, unpacked(many, u))
    wanted = CALLS[method](theirs, g, other, v2, unpacked(many, u2))
    inputs = {"vjp": (mine + u, other + u2), "jvp": (mine + v, other + v2)}
    mine_all, other_all = inputs.get(method, (mine, other))
    equal(differentiate(found, mine_all, np), differentiate(wanted, other_all, torch), rtol=1e-11)


@pytest.mark.parametrize("method", ["hessian", "vhp", "hvp"])
def test_second_derivatives_with_a_graph(method):
    f, mine, g, other = pair(*ENERGIES["two"], requires_grad=True)
    v, u = vectors(other)
    if method == "hessian":
        found = ours.hessian(f, mine, create_graph=True)
        wanted = theirs.hessian(g, other, create_graph=True)
    else:
        found = getattr(ours, method)(f, mine, v, create_graph=True)[1]
        wanted = getattr(theirs, method)(g, other, u, create_graph=True)[1]
    equal(differentiate(found, mine, np), differentiate(wanted, other, torch), rtol=1e-11)


def test_a_jacobian_by_columns_with_a_graph():
    f, mine, _, _ = pair(*FUNCTIONS["elements"], requires_grad=True)
    by_rows = ours.jacobian(f, mine, create_graph=True)
    by_columns = ours.jacobian(f, mine, create_graph=True, strategy="forward-mode")
    rows = [g.numpy().copy() for g in differentiate(by_rows, mine, np)]
    for x in mine:
        x.grad = None
    for one_way, other_way in zip(differentiate(by_columns, mine, np), rows, strict=True):
        np.testing.assert_allclose(one_way.numpy(), other_way, rtol=1e-12)


def test_without_a_graph_results_are_detached():
    x = tg.tensor(A, requires_grad=True)
    w = tg.tensor(2.0, requires_grad=True)
    out, product = ours.vjp(lambda x: (x * x * w).sum(), x)
    assert not out.requires_grad and not product.requires_grad
    assert x.grad is None


def test_inside_transforms():
    """grad of a Jacobian, and a Jacobian of a gradient, by either front."""
    f = lambda x: (np.sin(x) * x[0]).sum()
    x = np.array([0.3, 1.1])
    found = tg.grad(lambda x: np.sum(ours.hessian(f, x, create_graph=True) ** 2))(x)
    wanted = tg.grad(lambda x: np.sum(tg.hessian(f)(x) ** 2))(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


# --- errors -----------------------------------------------------------------------------------

X2 = tg.tensor([1.0, 2.0])
TWO = (X2, X2)


def total(x):
    return (x * x).sum()


def both(x, y):
    return x * y, x + y


@pytest.mark.parametrize(
    "call,kind,text",
    [
        (lambda m: m.vjp(total, "x"), TypeError, "inputs must be a tensor or a tuple"),
        (lambda m: m.jacobian(both, (X2, [X2])), TypeError, "index 1 has type list"),
        (lambda m: m.jacobian(lambda x: "no", X2), TypeError, "outputs of the function must be"),
        (lambda m: m.vjp(lambda x: x * x, X2), RuntimeError, "v can be None only for"),
        (lambda m: m.jvp(total, X2), RuntimeError, "v can be None only for"),
        (lambda m: m.hvp(total, X2), RuntimeError, "v can be None only for"),
        (
            lambda m: m.vjp(both, TWO, X2),
            RuntimeError,
            "v has 1 entries; it needs one for each output, which are 2",
        ),
        (
            lambda m: m.jvp(total, X2, TWO),
            RuntimeError,
            "v has 2 entries; it needs one for each input, which are 1",
        ),
        (lambda m: m.jvp(both, TWO, (X2, total(X2))), RuntimeError, r"entry 1 of v has shape \(\)"),
        (
            lambda m: m.vhp(total, X2, total(X2)),
            RuntimeError,
            r"v has shape \(\), the input \(2,\)",
        ),
        (lambda m: m.hessian(lambda x: x * x, X2), RuntimeError, "must return a single tensor"),
        (lambda m: m.vhp(both, TWO, TWO), RuntimeError, "must return a single tensor"),
        (lambda m: m.jacobian(total, X2, strategy="x"), ValueError, "strategy is 'x'; it must"),
        (
            lambda m: m.hessian(total, X2, outer_jacobian_strategy="x"),
            ValueError,
            "outer_jacobian_strategy is 'x'; it must be one of",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=rf"tapegrad.autograd.functional.*{text}"):
        call(ours)


@pytest.mark.parametrize(
    "call,text",
    [
        (lambda m: m.vjp(lambda x: X2, X2, X2, strict=True), "output 0 is independent of input 0"),
        (lambda m: m.jacobian(lambda x, y: x * 1, TWO, strict=True), "independent of input 1"),
        (
            lambda m: m.vjp(lambda x, y: x * 1, TWO, X2, strict=True),
            "every output is independent of",
        ),
        (lambda m: m.jvp(lambda x, y: x * 1, TWO, TWO, strict=True), "every output is independent"),
        (
            lambda m: m.hessian(lambda x: x.sum(), X2, strict=True),
            "the gradient by input 0 is independent of input 0",
        ),
        (lambda m: m.hvp(lambda x: x.sum(), X2, X2, strict=True), "gradient by input 0 is indep"),
        (
            lambda m: m.jacobian(lambda x: x * 2, X2, create_graph=True, strict=True),
            "the Jacobian by input 0 is independent of input 0",
        ),
        (
            lambda m: m.vhp(lambda x: (x * x).sum(), X2, X2, create_graph=True, strict=True),
            "the product by input 0 is independent of input 0",
        ),
    ],
)
def test_strict(call, text):
    with pytest.raises(RuntimeError, match=text):
        call(ours)


def test_strict_raises_where_pytorch_raises():
    """Two outputs of which each depends on one input: enough for products, not for Jacobians."""
    f = lambda x, y: (x * x, y * y)
    g = lambda x, y: (x * x).sum() + (y * y).sum()
    for module, one in ((ours, tg.tensor([1.0, 2.0])), (theirs, torch.tensor([1.0, 2.0]))):
        two = (one, one)
        module.vjp(f, two, two, strict=True)
        module.jvp(f, two, two, strict=True)
        module.hvp(g, two, two, strict=True)
        with pytest.raises(RuntimeError, match="independent of input 1"):
            module.jacobian(f, two, strict=True)
        with pytest.raises(RuntimeError, match="independent of input 1"):
            module.hessian(g, two, strict=True)


def test_strict_allows_what_depends():
    f, mine, g, other = pair(*ENERGIES["two"])
    equal(ours.hessian(f, mine, strict=True), theirs.hessian(g, other, strict=True))
