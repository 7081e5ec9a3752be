"""Function: how it is called, and its derivative forwards."""

import numpy as np
from torch_side import both, exp_of, leaf, make

import tapegrad as tg


def test_named_arguments_and_defaults():
    def script(lib):
        def forward(x, factor=2.0, power=1):
            return factor * x**power

        def setup_context(ctx, inputs, output):
            ctx.inputs = inputs

        def backward(ctx, gradient):
            x, factor, power = ctx.inputs
            return factor * power * x ** (power - 1) * gradient, None, None

        def forward_with_ctx(ctx, x, factor=2.0):
            ctx.factor, ctx.needs = factor, len(ctx.needs_input_grad)
            return factor * x

        def backward_with_ctx(ctx, gradient):
            return (ctx.factor * gradient, None)[: ctx.needs]

        f = make(lib, forward, backward, setup_context=setup_context)
        g = make(lib, forward_with_ctx, backward_with_ctx)
        x = leaf(lib, [1.0, 2.0])
        found = [f(x), f(x, power=3), f(power=2, x=x), g(x), g(x, factor=5.0), g(x=x)]
        return found, [lib.autograd.grad(y.sum(), x) for y in found]

    both(script)


def test_forward_mode_without_jvp():
    def script(lib):
        def forward(ctx, x, y, k):
            ctx.k = k
            ctx.save_for_backward(x, y)
            places = lib.tensor([2, 0, 1])
            ctx.mark_non_differentiable(places)
            return places, x * x * y, k * x.sum()

        def backward(ctx, _, g, h):
            x, y = ctx.saved_tensors
            return 2 * x * y * g + ctx.k * h, (x * x * g).sum(), None

        f = make(lib, forward, backward)
        x, y = lib.tensor([1.0, 2.0, 3.0]), lib.tensor(4.0)
        vectors = lib.tensor([1.0, 0.5, 2.0]), lib.tensor(3.0)
        functional = lib.autograd.functional
        both_results = functional.jvp(lambda x, y: f(x, y, 5.0)[1:], (x, y), vectors)
        one = functional.jvp(lambda x: f(x, y, 5.0)[2] ** 2, x, vectors[0])

        def energy(x, y):
            return (
                functional.jvp(lambda x: f(x, y, 5.0)[1], x, x, create_graph=True)[1] ** 2
            ).sum()

        return both_results, one, functional.jacobian(energy, (x, y))

    both(script)
    x = leaf(tg, [1.0, -2.0])
    assert tg.autograd.gradcheck(exp_of(tg), x, check_forward_ad=True)
    assert tg.autograd.gradgradcheck(exp_of(tg), x, check_fwd_over_rev=True)


def test_tangents_that_jvp_is_given_stay_as_they_are():
    kept = []

    class Keeps(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def jvp(ctx, tangent):
            kept.append(tangent)
            return tangent * 2.0

    v = np.linspace(1.0, 2.0, 50_000)
    for _ in range(3):
        tg.jvp(lambda x: np.sum(Keeps.apply(x * 3.0)), (v,), (v,))
    for tangent in kept:
        np.testing.assert_array_equal(tangent.numpy(), 3.0 * v)
