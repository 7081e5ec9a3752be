"""Small programs as users of PyTorch write them, run in both libraries."""

import numpy as np
from torch_side import both, leaf, torch

A = np.random.default_rng(3).normal(size=(6, 3)).tolist()
V = [0.7, -1.3, 0.4]


def started(lib, net):
    """A module whose parameters are the same numbers in both libraries."""
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for parameter in net.parameters():
            values = rng.normal(size=tuple(parameter.shape))
            parameter[...] = torch.tensor(values) if lib is torch else values
    return net


def gradients(net):
    return [parameter.grad for parameter in net.parameters()]


def perceptron(lib):
    nn = lib.nn
    return started(lib, nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))


def test_a_gradient_penalty():
    def script(lib):
        net, x = perceptron(lib), leaf(lib, A)
        out = net(x)
        (slope,) = lib.autograd.grad(out, x, lib.ones_like(out), create_graph=True)
        penalty = (((slope**2).sum(1) ** 0.5 - 1) ** 2).mean()
        (out.mean() + 10 * penalty).backward()
        return penalty, gradients(net), x.grad

    both(script)


def test_learning_to_learn():
    def script(lib):
        w, x = leaf(lib, V), lib.tensor(A)

        def loss(w):
            return ((x @ w - 1.0) ** 2).mean()

        fast = w
        for _ in range(3):
            (slope,) = lib.autograd.grad(loss(fast), fast, create_graph=True)
            fast = fast - 0.1 * slope
        loss(fast).backward()
        return fast, w.grad

    both(script)


def test_newtons_method():
    def script(lib):
        x = leaf(lib, 2.0)
        for _ in range(6):
            y = x**4 - 3 * x**2 + x
            (first,) = lib.autograd.grad(y, x, create_graph=True)
            (second,) = lib.autograd.grad(first, x)
            x = (x - first / second).detach().requires_grad_()
        return x

    both(script)


def test_a_recurrent_network_cut_in_time():
    def script(lib):
        w, h, seen = leaf(lib, 0.5), lib.tensor(1.0), []
        for step in range(6):
            h = lib.tanh(w * h + 1.0)
            if step % 2:
                (h * h).backward()
                h = h.detach()
                seen.append(w.grad.clone())
        return seen

    both(script)


def test_a_checkpoint():
    def script(lib):
        class Checkpoint(lib.autograd.Function):
            @staticmethod
            def forward(ctx, function, x):
                ctx.function = function
                ctx.save_for_backward(x)
                return function(x)

            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                with lib.enable_grad():
                    again = x.detach().requires_grad_()
                    out = ctx.function(again)
                out.backward(gradient)
                return None, again.grad

        x = leaf(lib, V)
        (Checkpoint.apply(lambda x: lib.sin(x) * x, x * 2) ** 2).sum().backward()
        return x.grad

    both(script)


def test_a_backward_that_is_a_function_too():
    def script(lib):
        class CubeBackward(lib.autograd.Function):
            @staticmethod
            def forward(ctx, gradient, x):
                ctx.save_for_backward(gradient, x)
                return gradient * 3 * x**2

            @staticmethod
            def backward(ctx, outer):
                gradient, x = ctx.saved_tensors
                return outer * 3 * x**2, outer * gradient * 6 * x

        class Cube(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, gradient):
                return CubeBackward.apply(gradient, *ctx.saved_tensors)

        x = leaf(lib, V)
        (first,) = lib.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
        checks = lib.autograd.gradcheck(Cube.apply, x), lib.autograd.gradgradcheck(Cube.apply, x)
        return first, lib.autograd.grad(first.sum(), x), checks

    both(script)


def test_an_optimizer_in_the_backward_pass():
    def script(lib):
        layer = started(lib, lib.nn.Linear(3, 2))
        optimizers = {p: lib.optim.SGD([p], lr=0.1) for p in layer.parameters()}

        def step(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in layer.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            (layer(lib.tensor(V)) ** 2).sum().backward()
        return list(layer.parameters()), gradients(layer)

    both(script)


def test_training_goes_on_from_what_was_saved():
    def script(lib):
        x, target = lib.tensor(A), lib.tensor([[float(k)] for k in range(6)])

        def trained(net, optimizer):
            losses = []
            for _ in range(4):
                optimizer.zero_grad()
                loss = lib.nn.functional.mse_loss(net(x), target)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses

        net = perceptron(lib)
        optimizer = lib.optim.Adam(net.parameters(), lr=0.05)
        first = trained(net, optimizer)
        other = perceptron(lib)
        again = lib.optim.Adam(other.parameters(), lr=1.0)
        told = repr(other.load_state_dict(net.state_dict()))
        again.load_state_dict(optimizer.state_dict())
        return first, trained(other, again), told, again.param_groups[0]["lr"]

    both(script)


def test_a_backward_pass_inside_a_hook():
    def script(lib):
        x, w = leaf(lib, V), leaf(lib, V)

        def hook(gradient):
            with lib.enable_grad():
                (w * gradient).sum().backward()

        y = x * 2
        handle = y.register_hook(hook)
        (y * y).sum().backward()
        handle.remove()
        (x * 2).sum().backward()
        return x.grad, w.grad

    both(script)


def test_derivatives_inside_derivatives():
    def script(lib):
        functional, x = lib.autograd.functional, lib.tensor(V)

        def cubes(x):
            return (x**3).sum() * x[0]

        def jacobian(x):
            return functional.jacobian(cubes, x, create_graph=True)

        third = functional.jacobian(lambda x: functional.hessian(cubes, x, create_graph=True), x)
        return functional.jacobian(jacobian, x), third, functional.vhp(cubes, x, x)

    both(script)
