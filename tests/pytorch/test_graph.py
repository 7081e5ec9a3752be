"""The graph and leaves: flags, grad_fn, retained gradients, backward and grad, against PyTorch."""

import gc
import re

import numpy as np
import pytest
from torch_side import both, leaf

import tapegrad as tg
from tapegrad._core.tape import store

# --- flags and names --------------------------------------------------------------------------


def test_flags():
    def script(lib):
        x, c = leaf(lib, [1.0, 2.0]), lib.tensor([3.0, 4.0])
        y = x * c
        seen = [(t.requires_grad, t.is_leaf, t.grad_fn is None) for t in (x, c, y, c * 2, x[0])]
        seen += [(t.requires_grad, t.is_leaf) for t in (y.detach(), x.detach(), y[1:], y.clone())]
        return seen + [x.retains_grad, y.retains_grad, y.grad_fn is y.grad_fn]

    both(script)


def test_requires_grad_is_set_on_inputs():
    def script(lib):
        x = lib.tensor([1.0, 2.0])
        x.requires_grad = True
        (x * x).sum().backward()
        first = x.grad.clone()
        x.requires_grad = False
        still = (x * 2).requires_grad
        x.requires_grad_(True)
        x.grad = None
        (3 * x).sum().backward()
        y = lib.arange(6.0).reshape(2, 3).requires_grad_()
        (y * y)[1].sum().backward()
        d = (x * 2).detach().requires_grad_()
        d[0].backward()
        return first, still, x.grad, y.grad, d.grad, d.is_leaf

    both(script)


def test_requires_grad_of_results_cannot_be_switched_off():
    y = leaf(tg, 2.0) * 2
    with pytest.raises(RuntimeError, match="only inputs can stop requiring grad; use detach"):
        y.requires_grad = False
    y.requires_grad = True
    with pytest.raises(TypeError, match="only float64 and float32 can require grad, not int64"):
        tg.tensor([1, 2]).requires_grad_()


OPERATIONS = {
    "add": lambda lib, x, y: x + y,
    "mul": lambda lib, x, y: x * y,
    "mul by a number": lambda lib, x, y: x * 2,
    "sub": lambda lib, x, y: x - y,
    "div": lambda lib, x, y: x / y,
    "neg": lambda lib, x, y: -x,
    "square": lambda lib, x, y: x**2,
    "exp": lambda lib, x, y: lib.exp(x),
    "log": lambda lib, x, y: lib.log(x),
    "sin": lambda lib, x, y: lib.sin(x),
    "tanh": lambda lib, x, y: lib.tanh(x),
    "sqrt": lambda lib, x, y: lib.sqrt(x),
    "abs": lambda lib, x, y: abs(x),
    "arctan": lambda lib, x, y: lib.arctan(x),
    "sum": lambda lib, x, y: x.sum(),
    "clone": lambda lib, x, y: x.clone(),
    "dot": lambda lib, x, y: x @ y,
    "gather": lambda lib, x, y: x[[0, 2]],
    "element": lambda lib, x, y: x[1],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_names_of_nodes(name):
    def script(lib):
        x, y = leaf(lib, [1.0, 2.0, 3.0]), leaf(lib, [2.0, 0.5, 1.0])
        return OPERATIONS[name](lib, x, y).grad_fn.name()

    both(script)


def test_names_of_scalar_nodes_and_what_follows():
    def script(lib):
        x, y = leaf(lib, 2.0), leaf(lib, 3.0)
        z = lib.exp(x * y) + y
        top = z.grad_fn
        below = [type(node).__name__ for node, _ in top.next_functions]
        ends = top.next_functions[0][0].next_functions[0][0].next_functions
        return (
            [top.name(), *below],
            [
                (type(n).__name__, k, n.variable is v)
                for (n, k), v in zip(ends, (x, y), strict=True)
            ],
            top.next_functions[1][0].variable is y,
            (x * 2).grad_fn.next_functions[1],
        )

    both(script)


def test_views_and_writes_have_nodes():
    x = leaf(tg, [1.0, 2.0, 3.0])
    assert x.grad_fn is None
    view = x[1:]
    assert view.grad_fn.name() == "AsStridedBackward0"
    assert view.grad_fn.next_functions[0][0].variable is x
    f = x * 2.0
    assert f.reshape(3, 1).grad_fn.next_functions[0][0] is f.grad_fn
    before = f.grad_fn
    f[1] = x[0]
    assert f.grad_fn.name() == "CopySlices"
    (old, _), (written, _) = f.grad_fn.next_functions
    assert old is before and written.name() == "SelectBackward0"
    g = f * 1.0
    f[2] = 0.0
    assert g.grad_fn.next_functions[0][0].next_functions[0][0] is before
    assert f.grad_fn.next_functions[1] == (None, 0)


def test_text():
    def script(lib):
        x, s = leaf(lib, [1.0, 2.5]), leaf(lib, 3.5)
        texts = [str(t) for t in (x, s, x * 2, (x * x).sum(), s * s, x.detach())]
        (s * s).backward()
        return [re.sub(r"\s+", "", re.sub(r"([0-9.])0+(?=[,\])])", r"\1", t)) for t in texts]

    both(script)


def test_text_after_a_backward_pass():
    x = leaf(tg, [1.0, 2.0])
    y, s = x * 2, x[0] * x[1]
    (y.sum() + s).backward()
    assert str(y) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
    assert str(s) == "tensor(2., grad_fn=<MulBackward0>)"
    with pytest.raises(RuntimeError, match="used up by an earlier backward pass"):
        assert y.grad_fn.next_functions


def test_a_node_keeps_what_it_shows():
    x = leaf(tg, [1.0, 2.0])
    node = (np.sin(x) * x).grad_fn
    for _ in range(3):
        y = x[0]
        for _ in range(100_000):
            y = y * 1.0
        store.seal()
        store.look()
    gc.collect()
    (inner, _), (end, _) = node.next_functions
    assert (inner.name(), end.name()) == ("SinBackward0", "AccumulateGrad")
    first, _ = node(tg.tensor([1.0, 1.0]))
    assert first.tolist() == [1.0, 2.0]


def test_metadata():
    x = leaf(tg, 2.0)
    y = x * 3
    y.grad_fn.metadata["seen"] = 1
    gc.collect()
    assert y.grad_fn.metadata == {"seen": 1} and (y * 2).grad_fn.metadata == {}
    assert y.grad_fn.next_functions[0][0].metadata == {}
    assert leaf(tg, 1.0)[None].grad_fn.next_functions[0][0].variable is None  # it is gone
    with pytest.raises(NotImplementedError, match="a view is not a row of the tape"):
        assert leaf(tg, [1.0, 2.0])[1:].grad_fn.metadata


# --- nodes called -----------------------------------------------------------------------------


def walk(node, gradient, found):
    """A hand-written reverse pass over `next_functions`."""
    if hasattr(node, "variable"):
        while gradient.ndim > node.variable.ndim:  # PyTorch's nodes leave that to its engine
            gradient = gradient.sum(0)
        before = found.get(id(node.variable))
        found[id(node.variable)] = gradient if before is None else before + gradient
        return
    gradients = node(gradient)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    for (below, _), part in zip(node.next_functions, gradients, strict=True):
        if below is not None:
            walk(below, part, found)


def test_nodes_called_by_hand():
    def script(lib):
        a, b = leaf(lib, 3.0), leaf(lib, 2.0)
        f = a**2 * b**2 + b**2
        found = {}
        walk(f.grad_fn, lib.tensor(1.0), found)
        return f, found[id(a)], found[id(b)]

    assert both(script)[1:] == [24.0, 40.0]


def test_a_network_walked_by_hand():
    rng = np.random.default_rng(1)
    shapes = [(4, 3), (4,), (2, 4), (2,)]
    values = [rng.normal(size=shape).tolist() for shape in shapes]
    data = rng.normal(size=(5, 3)).tolist()

    def script(lib):
        w1, b1, w2, b2 = parameters = [leaf(lib, v) for v in values]
        x = lib.tensor(data)
        out = lib.tanh(x @ w1.T + b1) @ w2.T + b2
        loss = (out**2).sum()
        found = {}
        walk(loss.grad_fn, lib.tensor(1.0), found)
        by_hand = [found[id(p)].detach() for p in parameters]
        loss.backward()
        for mine, p in zip(by_hand, parameters, strict=True):
            np.testing.assert_allclose(mine.numpy(), p.grad.numpy(), rtol=1e-12, atol=1e-14)
        return by_hand

    both(script)


def test_a_walk_over_views_writes_and_picked_elements():
    x = leaf(tg, [1.0, 2.0, 3.0, 4.0])
    f = x.reshape(2, 2) * x[::-1].reshape(2, 2)
    f[0] = f[1] * f[1]
    f[[1, 1], [0, 1]] = x[:2]
    loss = np.concatenate([f[:, 0] * x[2], np.stack([x[0], x[3]])]).sum() + f[[0, 1], [0, 0]].sum()
    found = {}
    node = loss.grad_fn
    with pytest.raises(RuntimeError, match="was written in place since; call backward"):
        walk(node, tg.tensor(1.0), found)
    g = x * 2.0
    part = g[1:]
    part[0] = x[0]
    g[2:] = x[1:3]
    loss = (g.reshape(2, 2).sum(0) + x.sum()).sum() + g[[0, 3]].sum()
    found = {}
    walk(loss.grad_fn, tg.tensor(1.0), found)
    loss.backward()
    np.testing.assert_allclose(found[id(x)].detach().numpy(), x.grad.numpy(), rtol=1e-14)


def test_calling_the_end_of_the_graph_accumulates():
    def script(lib):
        x = leaf(lib, 2.0)
        end = (x * 2).grad_fn.next_functions[0][0]
        end(lib.tensor(3.0))
        end(lib.tensor(4.0))
        return x.grad

    assert both(script) == 7.0


# --- retained gradients -----------------------------------------------------------------------


def test_retain_grad():
    def script(lib):
        x, s = leaf(lib, [1.0, 2.0]), leaf(lib, 3.0)
        y, t = x * 2, s * 2
        v = y[1:]
        for one in (x, y, y, t, v):
            one.retain_grad()
        z = (v * y[0] + t).sum()
        z.backward(retain_graph=True)
        z.backward()
        return [x.grad, s.grad, y.grad, t.grad, v.grad, x.retains_grad, y.retains_grad]

    both(script)


def test_retained_gradient_of_a_result_written_later_is_that_of_its_newest_value():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        y = x * 2
        y.retain_grad()
        y *= x.detach()
        (y * y).sum().backward()
        return x.grad, y.grad

    both(script)


def test_retained_gradients_do_not_live_longer_than_their_tensors():
    x = leaf(tg, [1.0, 2.0])
    for _ in range(50):
        y = x * 2
        y.retain_grad()
        kept = y._meta
        y.sum().backward()
    del y
    gc.collect()
    assert kept.view() is None


def test_grad_of_a_result_warns():
    y = leaf(tg, 1.0) * 2
    text = "the grad of a tensor that is not an input was read; .*call retain_grad"
    for t in (y, leaf(tg, [1.0, 2.0])[1:], leaf(tg, [1.0]) * 2):
        with pytest.warns(UserWarning, match=text) as seen:
            assert t.grad is None
        assert seen[0].filename == __file__
    assert tg.tensor(1.0).grad is None


def test_retain_grad_of_what_has_none():
    with pytest.raises(RuntimeError, match="retain_grad: the tensor does not require grad"):
        tg.tensor(1.0).retain_grad()


# --- backward ---------------------------------------------------------------------------------


def test_several_roots():
    def script(lib):
        x, w = leaf(lib, [1.0, 2.0]), leaf(lib, 3.0)
        a, b = x * w, (x * x).sum()
        lib.autograd.backward([a, b], [lib.tensor([1.0, 10.0]), None])
        return x.grad, w.grad

    both(script)


def test_backward_into_named_inputs():
    def script(lib):
        x, w = leaf(lib, [1.0, 2.0]), leaf(lib, 3.0)
        h = x * w
        (h * h).sum().backward(inputs=[h, w])
        first = x.grad, w.grad, h.grad
        y = leaf(lib, 2.0)
        lib.autograd.backward(y * w, inputs=w)
        return *first, w.grad, y.grad

    both(script)


def test_create_graph():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        y = (x**3).sum()
        y.backward(create_graph=True)
        first = x.grad
        x.grad = None
        first.sum().backward()
        return first, first.requires_grad, x.grad, x.grad.requires_grad

    with pytest.warns(UserWarning, match="create_graph=True"):
        both(script)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (lambda y, x: ([y, 1.0],), TypeError, "tensors has an item of type float"),
        (lambda y, x: (y, [None, None]), RuntimeError, "got 2 gradients for 1 outputs"),
        (lambda y, x: (y, tg.ones(3)), ValueError, r"gradient= has shape \(3,\), the output has"),
        (lambda y, x: (tg.ones(1),), RuntimeError, "the tensor is not recorded"),
        (
            lambda y, x: (y * x,),
            RuntimeError,
            r"the output has shape \(2,\), but a gradient needs a",
        ),
    ],
)
def test_what_backward_refuses(arguments, error, text):
    x = leaf(tg, [1.0, 2.0])
    with pytest.raises(error, match=f"^tapegrad.autograd.backward: {text}"):
        tg.autograd.backward(*arguments((x * 2).sum(), x))
    with pytest.raises(RuntimeError, match="inputs is empty"):
        x.sum().backward(inputs=[])
