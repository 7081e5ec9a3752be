"""The well-known tour of torch.autograd, topic by topic, in both libraries.

First part: functions, graph, gradients and hooks; test_tour_tools.py has the second.
"""

import numpy as np
import pytest
from torch_side import both, leaf

import tapegrad as tg


def test_a_function_of_your_own():
    def script(lib):
        class Exp(lib.autograd.Function):
            @staticmethod
            def forward(ctx, i):
                result = lib.exp(i)
                ctx.save_for_backward(result)
                return result

            @staticmethod
            def backward(ctx, grad_output):
                (result,) = ctx.saved_tensors
                return grad_output * result

        x = leaf(lib, 1.0)
        y = Exp.apply(x)
        name = y.grad_fn.name()
        y.backward()
        return y, x.grad, name

    both(script)


def test_a_function_that_scales_the_gradient():
    def script(lib):
        class GradCoeff(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, coefficient):
                ctx.coefficient = coefficient
                return x.view_as(x) if lib is not tg else x

            @staticmethod
            def backward(ctx, grad_output):
                return ctx.coefficient * grad_output, None

        x = leaf(lib, 2.0)
        y = GradCoeff.apply(x, -0.1)
        (y * y).backward()
        return x.grad

    assert both(script) == -0.4


def test_the_graph_of_a_small_formula():
    def script(lib):
        a, b, e = leaf(lib, 2.0), leaf(lib, 0.5), leaf(lib, 1.0)
        c = a * b
        d = lib.exp(c)
        f = d + e
        chain, node = [], f.grad_fn
        while node is not None:
            chain.append([type(below).__name__ for below, _ in node.next_functions])
            node = node.next_functions[0][0] if node.next_functions else None
        flags = [[t.requires_grad, t.is_leaf, t.grad_fn is None] for t in (a, b, c, d, e, f)]
        f.backward()
        with pytest.warns(UserWarning, match="retain_grad"):
            missing = [c.grad, d.grad, f.grad]
        return f, [a.grad, b.grad, e.grad], missing, flags, chain

    f, gradients, missing, flags, chain = both(script)
    np.testing.assert_allclose([f, *gradients], [np.e + 1, np.e / 2, 2 * np.e, 1.0], rtol=1e-15)
    assert missing == [None] * 3
    assert chain == [
        ["ExpBackward0", "AccumulateGrad"],
        ["MulBackward0"],
        ["AccumulateGrad"] * 2,
        [],
    ]
    assert [leaf for _, leaf, _ in flags] == [True, True, False, False, True, False]


def test_walking_the_graph_by_hand():
    def script(lib):
        a, b = leaf(lib, 3.0), leaf(lib, 2.0)
        f = a**2 * b**2 + b**2
        product, square = [node for node, _ in f.grad_fn.next_functions]
        to_product, to_square = f.grad_fn(lib.tensor(1.0))
        to_a2, to_b2 = product(to_product)
        by_a2, by_b2 = [node for node, _ in product.next_functions]
        da = by_a2(to_a2)
        db = by_b2(to_b2) + square(to_square)
        f.backward()
        return da, db, a.grad, b.grad

    assert both(script) == [24.0, 40.0, 24.0, 40.0]


def test_control_flow():
    def script(lib):
        x = leaf(lib, [0.3071, 1.1043, 1.3605, -0.3471])
        result = 1.0
        for ii in x:
            if ii.item() > 0:
                result = ii * result
        result.backward()
        return x.grad

    np.testing.assert_allclose(both(script), [1.5023, 0.4178, 0.3391, 0.0], atol=2e-4)


def test_gradients_without_accumulation():
    def script(lib):
        a, b = leaf(lib, 2.0), leaf(lib, 0.5)
        c = a * b
        d = lib.exp(c)
        return lib.autograd.grad(d, (c, a)), a.grad, b.grad

    (to_c, to_a), *grads = both(script)
    np.testing.assert_allclose([to_c, to_a], [2.7183, 1.3591], atol=1e-4)
    assert grads == [None, None]


def test_a_hook_on_an_intermediate_and_its_removal(capsys):
    def script(lib):
        a, b = leaf(lib, 2.0), leaf(lib, 0.5)
        c = a * b
        d = lib.exp(c)
        handle = c.register_hook(lambda gradient: print(f"{gradient.item():.4f}"))
        d.backward(retain_graph=True)
        handle.remove()
        d.backward()
        return a.grad

    both(script)
    assert capsys.readouterr().out.split() == ["2.7183"] * 2


def test_gradients_accumulate_and_are_set_to_none():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        seen = []
        for _ in range(3):
            (x * x).sum().backward()
            seen.append(x.grad.clone())
        x.grad = None
        (x * 3).sum().backward()
        return seen, x.grad

    both(script)


def test_a_vector_needs_a_seed():
    def script(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        y = x * 2
        with pytest.raises(RuntimeError):
            y.backward()
        y.backward(lib.tensor([0.1, 1.0, 0.0001]))
        return x.grad

    both(script)


def test_the_graph_is_used_up_unless_it_is_retained():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError):
            y.backward()
        return x.grad

    both(script)


def test_detach_and_modes():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        y = x * x
        with lib.no_grad():
            quiet = y * 2
        d = y.detach()
        (y * d).sum().backward()
        return quiet.requires_grad, d.requires_grad, d, x.grad

    both(script)


def test_a_frozen_parameter():
    def script(lib):
        w, b = leaf(lib, [[1.0, 2.0]]), leaf(lib, [0.5])
        w.requires_grad_(False)
        out = lib.tensor([[3.0, 4.0]]) @ w.T + b
        (out * out).sum().backward()
        return w.grad, b.grad, out.requires_grad

    both(script)


def test_a_step_of_gradient_descent_by_hand():
    rng = np.random.default_rng(3)
    data, target = rng.normal(size=(8, 3)).tolist(), rng.normal(size=(8, 1)).tolist()

    def script(lib):
        w, b = leaf(lib, [[0.1], [0.2], [0.3]]), leaf(lib, [0.0])
        losses = []
        for _ in range(5):
            loss = ((lib.tensor(data) @ w + b - lib.tensor(target)) ** 2).mean()
            losses.append(loss.item())
            loss.backward()
            with lib.no_grad():
                for p in (w, b):
                    p -= 0.1 * p.grad
                    p.grad = None
        return losses, w, b

    both(script)


def test_derivatives_of_derivatives():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        (g,) = lib.autograd.grad((x**3).sum(), x, create_graph=True)
        penalty = (g * g).sum()
        penalty.backward()
        return g, x.grad

    both(script)


def test_in_place_writes_are_differentiated():
    """Where PyTorch raises: the overwritten value is needed, and the sweep puts it back."""
    x = leaf(tg, [1.0, 2.0])
    h = tg.exp(x)
    h *= h
    h.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-14)
