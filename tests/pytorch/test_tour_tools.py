"""The well-known tour of torch.autograd, second part: walks, Jacobians, checks, tools, modules."""

import inspect
import warnings

import numpy as np
import pytest
from torch_side import both, leaf, torch

import tapegrad as tg
from tapegrad._core.tape import store


def array_of(lib, values):
    """What a module takes as input: an array, or a tensor of PyTorch's."""
    return torch.tensor(values) if lib is torch else np.array(values)


def same_start(lib, net, rng):
    """Parameters of a module set to the same numbers in both libraries."""
    with lib.no_grad():
        for parameter in net.parameters():
            values = rng.normal(size=tuple(parameter.shape))
            parameter[...] = torch.tensor(values) if lib is torch else values
    return net


# --- the graph --------------------------------------------------------------------------------


def gradients_by_hand(result, one):
    """Gradients of the leaves below `result`, each node called once for all that reaches it."""
    order, seen = [], set()

    def visit(node):
        if node is not None and node not in seen:
            seen.add(node)
            for below, _ in node.next_functions:
                visit(below)
            order.append(node)

    visit(result.grad_fn)
    arrived, found = {result.grad_fn: one}, {}
    for node in reversed(order):
        if not node.next_functions:
            found[id(node.variable)] = fitted(arrived[node], node.variable)
            continue
        gradients = node(arrived[node])
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        for (below, _), part in zip(node.next_functions, gradients, strict=True):
            if below is not None:
                arrived[below] = arrived[below] + part if below in arrived else part
    return found


def fitted(gradient, variable):
    """PyTorch's nodes leave sums over broadcast axes to its engine."""
    while gradient.ndim > variable.ndim:
        gradient = gradient.sum(0)
    return gradient


def test_a_walker_gives_the_gradients_of_a_perceptron():
    def script(lib):
        rng = np.random.default_rng(5)
        nn = lib.nn
        net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
        same_start(lib, net, rng)
        out = net(array_of(lib, rng.normal(size=(6, 3))))
        loss = ((out - array_of(lib, rng.normal(size=(6, 2)))) ** 2).sum()
        found = gradients_by_hand(loss, lib.tensor(1.0))
        walked = [found[id(p)].detach() for p in net.parameters()]
        loss.backward()
        return walked, [p.grad for p in net.parameters()]

    walked, swept = both(script)
    assert len(walked) == 6
    for mine, wanted in zip(walked, swept, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-14)


# --- Jacobians and Hessians -------------------------------------------------------------------


def test_derivatives_of_a_scalar_function():
    def script(lib):
        x, y = lib.tensor(1.5), lib.tensor([0.5, -2.0])

        def f(x, y):
            return x**3 * (y**2).sum() + lib.exp(x)

        functional = lib.autograd.functional
        return functional.jacobian(f, (x, y)), functional.hessian(f, (x, y))

    (to_x, to_y), ((xx, xy), (yx, yy)) = both(script)
    np.testing.assert_allclose(to_x, 3 * 2.25 * 4.25 + np.exp(1.5), rtol=1e-14)
    np.testing.assert_allclose(yy, np.eye(2) * 2 * 1.5**3, rtol=1e-14)
    assert xy.tolist() == yx.tolist() and xx.shape == () and to_y.shape == (2,)


def test_derivatives_of_a_vector_function():
    def script(lib):
        rng = np.random.default_rng(6)
        linear = same_start(lib, lib.nn.Linear(4, 2), rng)
        x = lib.tensor(rng.normal(size=4).tolist())
        functional = lib.autograd.functional
        second = functional.hessian(lambda x: (linear(x) ** 3).sum(), x)
        return functional.jacobian(linear, x), linear.weight, second

    jacobian, weight, second = both(script)
    assert np.array_equal(jacobian, weight) and second.shape == (4, 4)


def test_derivatives_of_a_matrix_function():
    def script(lib):
        pool = lib.nn.AvgPool2d(2)
        x = lib.tensor(np.random.default_rng(7).normal(size=(2, 2, 4, 4)).tolist())
        functional = lib.autograd.functional
        second = functional.hessian(lambda x: (pool(x) ** 3).sum(), x)
        return functional.jacobian(pool, x), second

    jacobian, second = both(script)
    assert jacobian.shape == (2, 2, 2, 2, 2, 2, 4, 4) and second.shape == (2, 2, 4, 4) * 2
    assert set(np.unique(jacobian)) == {0.0, 0.25}


# --- checks and anomalies ---------------------------------------------------------------------


def sigmoid_of(lib):
    class Sigmoid(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = 1 / (1 + lib.exp(-x))
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, gradient):
            (out,) = ctx.saved_tensors
            return gradient * out * (1 - out)

    return Sigmoid.apply


@pytest.mark.parametrize(
    "kind, eps, passes",
    [("float32", 1e-3, True), ("float32", 1e-4, False), ("float64", 1e-4, True)]
    + [("float64", 1e-6, True)],
)
def test_gradcheck_of_a_function_of_your_own(kind, eps, passes):
    def script(lib):
        dtype = getattr(torch if lib is torch else np, kind)
        x = lib.tensor([0.3071, 1.1043, 1.3605, -0.3471], dtype=dtype, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            passed = lib.autograd.gradcheck(sigmoid_of(lib), (x,), eps=eps, raise_exception=False)
        return passed, len(caught)

    assert both(script) == [passes, kind == "float32"]


def test_a_wrong_gradient_shows_both_jacobians():
    def script(lib):
        class Wrong(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 3

        x = leaf(lib, [1.0, 2.0])
        with pytest.raises(RuntimeError, match=r"(?s)Jacobian mismatch for output 0.*") as info:
            lib.autograd.gradcheck(Wrong.apply, (x,))
        return ["numerical" in str(info.value), "analytical" in str(info.value)]

    assert both(script) == [True, True]


def root(lib, x):
    return lib.sqrt(x)  # the line that anomaly mode names


def product(lib, x):
    return x * lib.tensor(float("nan"))  # the line that anomaly mode names


@pytest.mark.parametrize("function", [root, product])
def test_anomaly_mode_names_the_line(function):
    place = f"line {inspect.getsourcelines(function)[1] + 1}, in {function.__name__}"

    def script(lib):
        x = leaf(lib, [-1.0, 1.0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with lib.autograd.detect_anomaly(), pytest.raises(RuntimeError) as info:
                (function(lib, x * 2) + 1).sum().backward()
        warning, error = str(caught[-1].message), str(info.value)
        assert place in warning
        told = error[error.index("Function") : error.index("output") + len("output")]
        return warning.split(" Traceback")[0], told

    both(script)


def test_anomaly_mode_names_a_function_of_your_own():
    def script(lib):
        class Fails(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, gradient):
                raise RuntimeError("Some error in backward")

        x = leaf(lib, [1.0, 2.0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with lib.autograd.detect_anomaly():
                y = Fails.apply(x * 2)  # the line
                with pytest.raises(RuntimeError, match="Some error in backward"):
                    y.sum().backward()
        text = str(caught[-1].message)
        assert "y = Fails.apply(x * 2)  # the line" in text
        return text.split(" Traceback")[0]

    assert both(script) == "Error detected in FailsBackward."


# --- memory, modes of modules, profile --------------------------------------------------------


def kept(lib, make):
    """Bytes that the graph keeps of what `make` computes: measured, not estimated."""
    if lib is tg:
        with store.lock:  # what earlier tests have left goes now, and not in between
            store.seal()
            store.look()
        before = store.statistics()
        result = make()
        after = store.statistics()
        return result, sum(after[key] - before[key] for key in ("bytes", "array_bytes"))
    packed = []

    def pack(tensor):
        packed.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return make(), sum(packed)


def test_no_grad_keeps_nothing():
    def script(lib):
        x = lib.ones((500, 200), requires_grad=True)

        def compute():
            y = x
            for _ in range(5):
                y = lib.sin(y) * y
            return y.sum()

        recorded, much = kept(lib, compute)
        with lib.no_grad():
            quiet, nothing = kept(lib, compute)
        assert much >= 10 * x.nbytes and nothing == 0
        return recorded, quiet, recorded.requires_grad, quiet.requires_grad, quiet.grad_fn

    both(script)


def test_dropout_in_training_and_in_evaluation():
    def script(lib):
        net = lib.nn.Sequential(lib.nn.Dropout(0.5))
        x = lib.ones((50, 40), requires_grad=True)
        out = net(x)
        out.sum().backward()
        kept = sorted(set(out.detach().flatten().tolist()))
        passed = bool((x.grad == out.detach()).all())
        net.eval()
        return kept, passed, net(x), net.training, net[0].training

    both(script)


def test_batch_norm_in_training_and_in_evaluation():
    def script(lib):
        rng = np.random.default_rng(8)
        net = same_start(lib, lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.BatchNorm1d(3)), rng)
        data = array_of(lib, rng.normal(size=(10, 4)))
        trained = [net.train()(data) for _ in range(3)][-1]
        running = [net[1].running_mean.tolist(), net[1].running_var.tolist()]
        evaluated = net.eval()(data)
        unchanged = running[0] == net[1].running_mean.tolist()
        (trained**2 + evaluated**3).sum().backward()
        return trained, evaluated, running, unchanged, [p.grad for p in net.parameters()]

    assert both(script)[3]


def test_a_profile_of_a_hundred_calls():
    """Forward rows, reverse rows and one table; names of modules' parts differ from PyTorch's."""

    def script(lib):
        nn = lib.nn
        net = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
        )
        x = array_of(lib, np.random.default_rng(9).normal(size=(2, 1, 6, 6)))
        with lib.autograd.profiler.profile() as profile:
            for _ in range(100):
                net(x).sum().backward()
        averages = profile.key_averages()
        counts = {row.key.removeprefix("aten::"): row.count for row in averages}
        assert any(key.endswith("Backward0") and n >= 100 for key, n in counts.items())
        for row in averages:
            assert 0 <= row.self_cpu_time_total <= row.cpu_time_total
        table = averages.table(sort_by="self_cpu_time_total", row_limit=10)
        lines = [line for line in table.split("\n") if "conv2d" in line or "Backward0" in line]
        assert lines
        heads = ["Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls"]
        return [counts[key] for key in ("conv2d", "relu", "max_pool2d", "linear")], [
            head in table for head in heads
        ]

    both(script)
