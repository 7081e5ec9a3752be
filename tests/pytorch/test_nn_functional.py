"""Layers and losses as functions: values, gradients and second derivatives against PyTorch."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.nn import functional as F

torch = pytest.importorskip("torch")
TF = torch.nn.functional


def close(got, wanted, rtol=1e-12):
    """Equal relative to the largest entry, in shape and dtype too."""
    got = got.detach().numpy() if isinstance(got, tg.Tensor) else np.asarray(got)
    wanted = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else np.asarray(wanted)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol, rtol * np.max(np.abs(wanted), initial=1e-300))


def check(ours, theirs, *arrays, rtol=1e-12):
    """The same function of the same arrays: value, gradients, and gradients of their norm."""
    mine = [tg.tensor(a, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    made, wanted = ours(*mine), theirs(*other)
    close(made, wanted, rtol)
    weights = np.random.default_rng(3).normal(size=wanted.shape).astype(arrays[0].dtype)
    seed = torch.tensor(weights)
    gradients = torch.autograd.grad(wanted, other, seed, create_graph=True)
    made.backward(weights)
    for x, gradient in zip(mine, gradients, strict=True):
        close(x.grad, gradient, rtol)
    if arrays[0].dtype != np.float64:
        return
    every = tuple(range(len(arrays)))

    def first(*xs):
        return tg.grad(lambda *ys: np.sum(ours(*ys) * weights), every)(*xs)

    total = sum((g * g).sum() for g in gradients)
    second = torch.autograd.grad(total, other, allow_unused=True, materialize_grads=True)
    found = tg.grad(lambda *xs: sum(np.sum(g * g) for g in first(*xs)), every)(*arrays)
    for ours_second, theirs_second in zip(found, second, strict=True):
        close(ours_second, theirs_second, 1e-11)


def check_both(ours, theirs, *arrays):
    """In float64 to second order, and in float32."""
    check(ours, theirs, *arrays)
    check(ours, theirs, *[a.astype(np.float32) for a in arrays], rtol=2e-5)


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
def test_activations(name, rng):
    check_both(getattr(F, name), getattr(TF, name), rng.normal(size=(3, 4)))


def test_relu_at_zero_and_nan():
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf])
    mine, other = tg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    made, wanted = F.relu(mine), TF.relu(other)
    np.testing.assert_array_equal(made.detach().numpy(), wanted.detach().numpy())
    made.backward(np.ones(5))
    wanted.backward(torch.ones(5, dtype=torch.float64))
    np.testing.assert_array_equal(mine.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name, dim, rng):
    x = rng.normal(size=(3, 4, 2))
    check_both(lambda x: getattr(F, name)(x, dim), lambda x: getattr(TF, name)(x, dim), x)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_linear(shape, rng):
    x, w, b = rng.normal(size=shape), rng.normal(size=(5, 4)), rng.normal(size=5)
    check_both(F.linear, TF.linear, x, w, b)
    check(F.linear, TF.linear, x, w)


CONVOLUTIONS = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"dilation": 2},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
    {"groups": 2},
    {"groups": 4, "stride": 3, "padding": 2},
    {"padding": "same"},
    {"padding": "same", "dilation": (1, 3)},
    {"padding": "valid", "stride": 2},
]


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # PyTorch's, of even kernels
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_conv2d(options, rng):
    groups = options.get("groups", 1)
    x, b = rng.normal(size=(2, 4, 7, 8)), rng.normal(size=8)
    w = rng.normal(size=(8, 4 // groups, 3, 2))
    check_both(lambda *a: F.conv2d(*a, **options), lambda *a: TF.conv2d(*a, **options), x, w, b)


def test_conv2d_of_one_image_and_without_bias(rng):
    x, w = rng.normal(size=(3, 6, 5)), rng.normal(size=(2, 3, 1, 1))
    check(F.conv2d, TF.conv2d, x, w)
    check(F.conv2d, TF.conv2d, x[:, None].transpose(1, 0, 2, 3), w)


def test_conv2d_does_not_depend_on_what_is_recorded(rng):
    x, w = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(4, 3, 3, 3))
    wanted = TF.conv2d(torch.tensor(x), torch.tensor(w))
    close(F.conv2d(x, w), wanted)
    close(F.conv2d(tg.tensor(x), tg.tensor(w)), wanted)
    check(lambda w: F.conv2d(x, w), lambda w: TF.conv2d(torch.tensor(x), w), w)
    check(lambda x: F.conv2d(x, w), lambda x: TF.conv2d(x, torch.tensor(w)), x)


POOLS = [
    {},
    {"stride": 1},
    {"stride": (1, 3)},
    {"padding": 1},
    {"ceil_mode": True},
    {"ceil_mode": True, "padding": 1, "stride": 3},
    {"ceil_mode": True, "stride": (3, 2), "padding": (0, 1)},
]


@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize("kernel", [2, (3, 2)])
@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d"])
def test_pools(name, kernel, options, rng):
    ours, theirs = getattr(F, name), getattr(TF, name)
    for shape in ((2, 3, 7, 8), (3, 6, 9)):
        x = rng.normal(size=shape)
        check_both(lambda x: ours(x, kernel, **options), lambda x: theirs(x, kernel, **options), x)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("more", [{"count_include_pad": False}, {"divisor_override": 5}], ids=str)
def test_avg_pool2d_divisors(more, ceil_mode, rng):
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": ceil_mode, **more}
    x = rng.normal(size=(2, 3, 8, 6))
    check_both(lambda x: F.avg_pool2d(x, **options), lambda x: TF.avg_pool2d(x, **options), x)


def test_max_pool2d_dilated(rng):
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2}
    x = rng.normal(size=(2, 3, 9, 10))
    check_both(lambda x: F.max_pool2d(x, **options), lambda x: TF.max_pool2d(x, **options), x)


@pytest.mark.parametrize("padding", [0, 1])
def test_max_pool2d_of_equal_elements_and_nan(padding):
    x = np.array([[[0.0, 0, 1, 1], [0, 0, 1, np.nan], [2, 2, -np.inf, -np.inf], [2, 2, 0, 0]]])
    x[0, 2:, 2:] = -np.inf
    mine, other = tg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    made, wanted = F.max_pool2d(mine, 2, None, padding), TF.max_pool2d(other, 2, None, padding)
    np.testing.assert_array_equal(made.detach().numpy(), wanted.detach().numpy())
    made.backward(np.ones(made.shape))
    wanted.backward(torch.ones_like(wanted))
    np.testing.assert_array_equal(mine.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2), (2, 3, 4, 5)])
def test_batch_norm_in_training(shape, rng):
    x, w, b = rng.normal(1.0, 2.0, shape), rng.normal(size=3), rng.normal(size=3)
    mean, var = rng.normal(size=3), rng.uniform(0.5, 2.0, 3)
    mine, other = [tg.tensor(mean), tg.tensor(var)], [torch.tensor(mean), torch.tensor(var)]
    options = {"training": True, "momentum": 0.3, "eps": 1e-3}
    made = F.batch_norm(tg.tensor(x), *mine, tg.tensor(w), tg.tensor(b), **options)
    wanted = TF.batch_norm(torch.tensor(x), *other, torch.tensor(w), torch.tensor(b), **options)
    close(made, wanted)
    for ours, theirs in zip(mine, other, strict=True):
        close(ours, theirs)
    check_both(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: TF.batch_norm(x, None, None, w, b, training=True),
        *(x, w, b),
    )


def test_batch_norm_in_evaluation(rng):
    x, w, b = rng.normal(1.0, 2.0, (4, 3, 2, 2)), rng.normal(size=3), rng.normal(size=3)
    mean, var = rng.normal(size=3), rng.uniform(0.5, 2.0, 3)
    check(
        lambda x, w, b: F.batch_norm(x, tg.tensor(mean), tg.tensor(var), w, b),
        lambda x, w, b: TF.batch_norm(x, torch.tensor(mean), torch.tensor(var), w, b),
        *(x, w, b),
    )


def test_dropout(rng):
    x = tg.tensor(rng.normal(size=(200, 50)), requires_grad=True)
    made = F.dropout(x, 0.25, generator=np.random.default_rng(0))
    kept = made.detach().numpy() != 0.0
    assert 0.73 < kept.mean() < 0.77
    close(made, np.where(kept, x.detach().numpy() / 0.75, 0.0))
    made.backward(np.ones(x.shape))
    close(x.grad, kept / 0.75)
    again = F.dropout(x, 0.25, generator=np.random.default_rng(0))
    close(again, made.detach().numpy())
    tg.manual_seed(5)
    first = F.dropout(x)
    tg.manual_seed(5)
    close(F.dropout(x), first.detach().numpy())
    assert F.dropout(x, 0.5, training=False) is x
    close(F.dropout(x, 1.0), np.zeros(x.shape))
    single = tg.tensor(np.ones(3, np.float32), requires_grad=True)
    assert F.dropout(single, 0.3).dtype == np.float32


def test_jacobians_of_windows(rng):
    """Several seeds in one sweep through views that overlap."""
    x, w = rng.normal(size=(2, 2, 4, 4)), rng.normal(size=(3, 2, 2, 2))
    for ours, theirs in (
        (lambda x: F.avg_pool2d(x, 2), lambda x: TF.avg_pool2d(x, 2)),
        (lambda x: F.max_pool2d(x, 3, 1, 1), lambda x: TF.max_pool2d(x, 3, 1, 1)),
        (lambda x: F.conv2d(x, w), lambda x: TF.conv2d(x, torch.tensor(w))),
    ):
        wanted = torch.autograd.functional.jacobian(theirs, torch.tensor(x))
        close(tg.jacobian(ours)(x), wanted)


# --- losses -----------------------------------------------------------------------------------

SHAPES = [(5,), (6, 5), (3, 5, 2, 4)]
REDUCTIONS = ["none", "mean", "sum"]


def classes(shape, rng):
    """Right classes for scores of a shape."""
    return rng.integers(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss(reduction, rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    check_both(
        lambda x, y: F.mse_loss(x, y, reduction=reduction),
        lambda x, y: TF.mse_loss(x, y, reduction=reduction),
        *(x, y),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_of_classes(shape, reduction, weighted, smoothing, rng):
    x, target, weight = rng.normal(size=shape), classes(shape, rng), rng.uniform(0.5, 2.0, 5)
    options = {"reduction": reduction, "label_smoothing": smoothing}

    def ours(x):
        factors = weight if weighted else None
        return F.cross_entropy(x, target, factors, **options)

    def theirs(x):
        factors = torch.tensor(weight, dtype=x.dtype) if weighted else None
        return TF.cross_entropy(x, torch.tensor(target), factors, **options)

    check_both(ours, theirs, x)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_of_probabilities(shape, reduction, smoothing, rng):
    x, target, weight = rng.normal(size=shape), rng.uniform(size=shape), rng.uniform(0.5, 2.0, 5)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    check_both(
        lambda x, t: F.cross_entropy(x, t, weight, **options),
        lambda x, t: TF.cross_entropy(x, t, torch.tensor(weight, dtype=x.dtype), **options),
        *(x, target),
    )
    check(
        lambda x: F.cross_entropy(x, target.tolist(), **options),
        lambda x: TF.cross_entropy(x, torch.tensor(target), **options),
        x,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_ignores_an_index(reduction, smoothing, rng):
    x, weight = rng.normal(size=(4, 5)), rng.uniform(0.5, 2.0, 5)
    x[1, 0] = -np.inf  # an ignored element must not turn into 0 · inf
    target = np.array([1, -1, 4, -1])
    options = {"ignore_index": -1, "reduction": reduction, "label_smoothing": smoothing}
    mine, other = tg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    made = F.cross_entropy(mine, target, tg.tensor(weight), **options)
    wanted = TF.cross_entropy(other, torch.tensor(target), torch.tensor(weight), **options)
    close(made, wanted)
    made.backward(np.ones(made.shape))
    wanted.backward(torch.ones_like(wanted))
    close(mine.grad, np.nan_to_num(other.grad.numpy()))


def test_cross_entropy_of_nothing_is_nan():
    x, target = np.zeros((2, 3)), np.array([-100, -100])
    assert np.isnan(F.cross_entropy(tg.tensor(x, requires_grad=True), target).item())
    assert np.isnan(TF.cross_entropy(torch.tensor(x), torch.tensor(target)).item())


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nll_loss(shape, reduction, rng):
    x, target = rng.normal(size=shape), classes(shape, rng)
    options = {"reduction": reduction, "ignore_index": 2}
    target.reshape(-1)[:1] = 3  # one element counts
    check_both(
        lambda x: F.nll_loss(x, tg.tensor(target), **options),
        lambda x: TF.nll_loss(x, torch.tensor(target), **options),
        x,
    )


# --- sampling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["zeros", "border"])
def test_grid_sample(mode, align, rng):
    options = {"mode": "bilinear", "padding_mode": mode, "align_corners": align}
    x, grid = rng.normal(size=(2, 3, 5, 4)), rng.uniform(-1.6, 1.6, (2, 6, 7, 2))
    check_both(
        lambda x, g: F.grid_sample(x, g, **options),
        lambda x, g: TF.grid_sample(x, g, **options),
        *(x, grid),
    )


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["zeros", "border"])
def test_grid_sample_at_pixels_and_borders(mode, align, rng):
    options = {"mode": "bilinear", "padding_mode": mode, "align_corners": align}
    x = rng.normal(size=(1, 2, 4, 4))
    line = np.array([-1.25, -1.0, -0.75, -0.5, 0.0, 0.25, 1.0, 1.25, 7.0])
    grid = np.stack(np.meshgrid(line, line), -1)[None]
    mine = [tg.tensor(a, requires_grad=True) for a in (x, grid)]
    other = [torch.tensor(a, requires_grad=True) for a in (x, grid)]
    made, wanted = F.grid_sample(*mine, **options), TF.grid_sample(*other, **options)
    close(made, wanted)
    made.backward(np.ones(made.shape))
    wanted.backward(torch.ones_like(wanted))
    close(mine[0].grad, other[0].grad)
    close(mine[1].grad, other[1].grad)


@pytest.mark.parametrize("mode", ["zeros", "border"])
def test_grid_sample_far_away_and_at_no_number(mode):
    x = tg.tensor(np.arange(1.0, 10.0).reshape(1, 1, 3, 3), requires_grad=True)
    far = tg.tensor([[[[1e30, -1e30], [np.inf, 0.0]]]], requires_grad=True)
    made = F.grid_sample(x, far, padding_mode=mode)
    close(made, [[[[3.0, 6.0]]]] if mode == "border" else [[[[0.0, 0.0]]]])
    made.backward(np.ones(made.shape))
    close(far.grad[0, 0, 0], [0.0, 0.0])
    none, corner = np.full((1, 1, 1, 2), np.nan), np.full((1, 1, 1, 2), -1.0)
    sampled = F.grid_sample(x, corner, padding_mode=mode).detach().numpy()
    close(F.grid_sample(x, none, padding_mode=mode), sampled)


def test_homographies_by_broadcasting_equal_those_by_repeat(rng):
    """A grid warped by a batch of 3×3 matrices; the gradients are those of PyTorch."""
    images, maps = rng.normal(size=(2, 3, 6, 5)), np.eye(3) + 0.1 * rng.normal(size=(2, 3, 3))
    line = np.linspace(-0.9, 0.9, 4)
    points = np.stack([*np.meshgrid(line, line), np.ones((4, 4))], -1)

    def ours(images, maps):
        warped = np.einsum("bij,hwj->bhwi", maps, points)
        return F.grid_sample(images, warped[..., :2] / warped[..., 2:])

    def repeated(images, maps):
        grid = np.repeat(tg.tensor(points)[None], 2, axis=0)
        warped = np.einsum("bij,bhwj->bhwi", maps, grid)
        return F.grid_sample(images, warped[..., :2] / warped[..., 2:])

    def theirs(images, maps):
        warped = torch.einsum("bij,hwj->bhwi", maps, torch.tensor(points))
        return TF.grid_sample(images, warped[..., :2] / warped[..., 2:], align_corners=False)

    check(ours, theirs, images, maps)
    check(repeated, theirs, images, maps)
