"""tg.autograd.grad against PyTorch: intermediate inputs, several outputs, batches, orders."""

import numpy as np
import pytest
from torch_side import both, leaf

import tapegrad as tg


def test_inputs_and_intermediates():
    def script(lib):
        a, b = leaf(lib, 2.0), leaf(lib, 0.5)
        c = a * b
        d = lib.exp(c)
        return lib.autograd.grad(d, (c, a, b)), a.grad, c.is_leaf

    both(script)


def test_arrays_views_and_rows_below_one_another():
    def script(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        h = x * x
        v = h[1:]
        k = lib.sin(v) * h[0]
        y = (k * v).sum()
        return lib.autograd.grad(y, (k, v, h, x)), lib.autograd.grad(lib.exp(x).sum(), x)

    both(script)


def test_rows_behind_an_intermediate_are_not_used_up():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        h, other = lib.sin(x), lib.cos(x)
        (g,) = lib.autograd.grad((h * h).sum(), h)
        h.backward(g)
        first = x.grad.clone()
        two = lib.autograd.grad((other * other.detach()).sum(), (other,))
        other.backward(two[0])
        return first, x.grad

    both(script)


def test_unrelated_intermediates_are_not_passed():
    def script(lib):
        x, y = leaf(lib, 1.5), leaf(lib, 2.5)
        g, h = lib.sin(x), lib.sin(y)
        found = lib.autograd.grad(g * h, (g, h))
        g.backward()
        h.backward()
        return found, x.grad, y.grad

    both(script)


def test_several_outputs_and_seeds():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        outs = [x * x, x.sum()]
        seeds = [lib.tensor([1.0, 3.0]), None]
        return lib.autograd.grad(outs, [x], grad_outputs=seeds)

    both(script)


def test_an_output_is_its_own_input():
    def script(lib):
        x = leaf(lib, 2.0)
        y = x * 3
        return lib.autograd.grad(y, (y, x)), lib.autograd.grad(x, x)

    both(script)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "prod"])
def test_a_scalar_made_of_an_array_is_its_own_input(name):
    def script(lib):
        x = leaf(lib, [1.0, 2.0, 4.0])
        y = getattr(x * 2, name)()
        alone = lib.autograd.grad(y, y, retain_graph=True)
        return alone, lib.autograd.grad(y * 3, (y, x))

    both(script)


@pytest.mark.parametrize("key", [0, slice(0, 2)])
def test_an_intermediate_that_reads_another_input_from_a_written_buffer(key):
    def script(lib):
        x, y = leaf(lib, [0.3, -0.5, 0.7]), leaf(lib, 0.8)
        buffer = x.clone()
        buffer[key] = y
        middle = (buffer * 1.5 * x).mean()
        loss = middle**2 + y
        return lib.autograd.grad(loss, (middle, y))

    both(script)


def test_inputs_after_in_place_writes():
    def script(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        f = x * 2
        f[0] = x[1] * x[2]
        g = f * f.detach()
        return lib.autograd.grad(g.sum(), (f, x))

    both(script)


def test_unused_inputs():
    def script(lib):
        x, unused = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0])
        later = x * 3
        y = (x * 2).sum()
        kw = {"retain_graph": True}
        return (
            lib.autograd.grad(y, (x, unused, later), allow_unused=True, **kw),
            lib.autograd.grad(y, (x, unused, later), materialize_grads=True, **kw),
        )

    both(script)


def test_batches_of_seeds():
    seeds = np.arange(6.0).reshape(3, 2)

    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * x
        y = lib.sin(h)
        args = [lib.tensor(seeds.tolist())]
        kw = {"is_grads_batched": True, "retain_graph": True}
        first = lib.autograd.grad(y, (x, h), args, **kw)
        second = lib.autograd.grad([y], [x], args, create_graph=True, **kw)
        return first, second, lib.autograd.grad(second[0].sum(), x)

    both(script)


def test_orders():
    def script(lib):
        x = leaf(lib, 0.7)
        y, found = lib.sin(x) * lib.exp(x), []
        for _ in range(5):
            (y,) = lib.autograd.grad(y, x, create_graph=True)
            found.append(y)
        return found

    both(script)


def test_second_order_with_intermediates():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * x
        y = (h * h * x).sum()
        gh, gx = lib.autograd.grad(y, (h, x), create_graph=True)
        return gh, gx, lib.autograd.grad((gh * gx).sum(), x)

    both(script)


def test_a_differentiable_seed():
    def script(lib):
        x, v = leaf(lib, [1.0, 2.0]), leaf(lib, [0.5, 1.5])
        (g,) = lib.autograd.grad(x**3, x, v, create_graph=True)
        return g, lib.autograd.grad((g * g).sum(), (x, v))

    both(script)


def test_float32_stays():
    x = tg.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    h = x * x
    found = tg.autograd.grad((h * h).sum(), (h, x))
    assert [g.dtype for g in found] == [np.float32, np.float32]
    assert found[1].tolist() == [4.0, 32.0]


def test_nothing_is_accumulated():
    x, w = leaf(tg, 2.0), leaf(tg, 3.0)
    y = x * w
    y.retain_grad()
    tg.autograd.grad(y * 2, x)
    assert x.grad is None and w.grad is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, y: (y, tg.ones(2)), RuntimeError, "input 0 does not require grad"),
        (lambda x, y: (y, [x, 3.0]), TypeError, "inputs has an item of type float"),
        (lambda x, y: (tg.ones(()), x), RuntimeError, "the tensor is not recorded"),
        (
            lambda x, y: (y, [x, leaf(tg, 1.0)]),
            RuntimeError,
            "the outputs do not depend on input 1; pass allow_unused=True",
        ),
        (
            lambda x, y: (y, x, [tg.ones(4), None]),
            RuntimeError,
            "got 2 gradients for 1 outputs",
        ),
        (
            lambda x, y: (y, x, tg.ones((3, 2)), None, False, None, True),
            ValueError,
            r"with is_grads_batched the grad_outputs have shapes \[\(3, 2\)\]",
        ),
        (
            lambda x, y: (y, x, None, None, False, False, False, True),
            ValueError,
            "allow_unused=False with materialize_grads=True",
        ),
    ],
)
def test_what_grad_refuses(call, error, text):
    x = leaf(tg, [1.0, 2.0])
    with pytest.raises(error, match=f"^tapegrad.autograd.grad: {text}"):
        tg.autograd.grad(*call(x, (x * x).sum()))
