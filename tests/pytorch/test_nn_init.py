"""Initial values: their distributions, by layer and by function; errors of the whole of `nn`."""

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F
from tapegrad.nn import init


def is_uniform(tensor, bound):
    """Within ±bound, and with the mean, the spread and the extremes of uniform numbers."""
    x = np.sort(tensor.detach().numpy().ravel() / bound)
    ideal = np.linspace(-1.0, 1.0, len(x))
    return abs(x).max() <= 1.0 and abs(x - ideal).max() < 4.0 / math.sqrt(len(x))


def test_layers_start_as_pytorchs():
    """±1/√fan_in for weights and biases: kaiming_uniform_ with a = √5."""
    tg.manual_seed(1)
    linear = nn.Linear(300, 100)
    assert is_uniform(linear.weight, 1 / math.sqrt(300))
    assert is_uniform(linear.bias, 1 / math.sqrt(300))
    conv = nn.Conv2d(8, 64, (3, 5), groups=2)
    assert conv.weight.shape == (64, 4, 3, 5) and conv.bias.shape == (64,)
    assert is_uniform(conv.weight, 1 / math.sqrt(60)) and is_uniform(conv.bias, 1 / math.sqrt(60))
    assert nn.Conv2d(1, 1, 1, bias=False).bias is None
    norm = nn.BatchNorm2d(3)
    assert norm.weight.tolist() == [1.0] * 3 and norm.bias.tolist() == [0.0] * 3
    assert norm.running_mean.tolist() == [0.0] * 3 and norm.running_var.tolist() == [1.0] * 3
    assert norm.num_batches_tracked.item() == 0
    assert nn.Linear(0, 2).bias.tolist() == [0.0, 0.0]
    single = nn.Linear(3, 2, dtype=np.float32)
    assert single.weight.dtype == single.bias.dtype == np.float32


def test_a_seed_repeats_what_follows():
    first, second, other = (tg.manual_seed(s) and nn.Linear(4, 4) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.weight.detach(), second.weight.detach())
    assert (first.weight != other.weight).all()


SPREADS = {
    "uniform_": ((-1.0, 3.0), 4 / math.sqrt(12)),
    "normal_": ((5.0, 0.5), 0.5),
    "xavier_uniform_": ((2.0,), 2 * math.sqrt(2 / (9 * 90))),
    "xavier_normal_": ((), math.sqrt(2 / (9 * 90))),
    "kaiming_uniform_": ((0.5, "fan_in"), math.sqrt(2 / 1.25 / 450)),
    "kaiming_normal_": ((0.0, "fan_out", "relu"), math.sqrt(2 / 360)),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spreads_and_what_is_recorded(name):
    arguments, spread = SPREADS[name]
    x = tg.zeros((40, 50, 3, 3), requires_grad=True)
    made = getattr(init, name)(x, *arguments, generator=np.random.default_rng(0))
    assert made is x and x.is_leaf and x.requires_grad
    again = getattr(init, name)(tg.zeros(x.shape), *arguments, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(again.numpy(), x.detach().numpy())
    assert np.std(x.detach().numpy()) == pytest.approx(spread, rel=0.02)


def test_constants():
    assert init.ones_(tg.zeros(2)).tolist() == [1.0, 1.0]
    assert init.zeros_(tg.ones(2)).tolist() == [0.0, 0.0]
    assert init.constant_(tg.zeros(1, dtype=np.float32), 0.5).dtype == np.float32


def test_gains_equal_pytorchs():
    torch = pytest.importorskip("torch")
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)


# --- errors -----------------------------------------------------------------------------------


class Early(nn.Module):
    def __init__(self):
        self.x = nn.Parameter([1.0])


def assign(name, value):
    """A layer to whose attribute something is assigned."""
    setattr(nn.Linear(1, 1), name, value)


IMAGE, SCORES = np.ones((1, 2, 4, 4)), np.zeros((2, 3))
RECORDED = tg.ones(3, requires_grad=True)
CASES = [
    (lambda: nn.Module()(1), "tapegrad.nn: Module defines no forward()"),
    (
        lambda: assign("weight", np.ones(1)),
        "tapegrad.nn: ndarray assigned to the parameter 'weight'; assign an nn.Parameter or None",
    ),
    (
        Early,
        "tapegrad.nn: 'x' is assigned before Module.__init__(); call super().__init__() first in "
        "Early.__init__",
    ),
    (
        lambda: nn.Module().register_parameter("a.b", None),
        "tapegrad.nn: the name 'a.b' must be a string without a dot",
    ),
    (
        lambda: assign("forward", nn.Parameter(1.0)),
        "tapegrad.nn: Linear has an attribute 'forward' of its class; take another name",
    ),
    (
        lambda: nn.Module().register_parameter("x", tg.ones(1)),
        "tapegrad.nn: the parameter 'x' is a Tensor; make it with nn.Parameter",
    ),
    (
        lambda: nn.Module().register_buffer("x", np.ones(1)),
        "tapegrad.nn: the buffer 'x' is a ndarray; make it a tensor with tg.tensor",
    ),
    (
        lambda: nn.Sequential(3),
        "tapegrad.nn: the module '0' is a int; it must be an nn.Module",
    ),
    (lambda: nn.Module().x, "'Module' object has no attribute 'x'"),
    (
        lambda: nn.Sequential(nn.ReLU())[1],
        "tapegrad.nn.Sequential: index 1 is out of range, there are 1 modules",
    ),
    (lambda: nn.Dropout(1.5), "tapegrad.nn.Dropout: p is 1.5; it must be from 0 to 1"),
    (lambda: F.dropout(IMAGE, -1), "tapegrad.dropout: p is -1; it must be from 0 to 1"),
    (
        lambda: nn.Flatten(2)(np.ones((2, 3))),
        "tapegrad.nn.Flatten: start_dim=2, end_dim=-1 name no run of axes of an input of shape "
        "(2, 3)",
    ),
    (
        lambda: nn.Conv2d(3, 4, 1, groups=2),
        "tapegrad.nn.Conv2d: groups is 2; it must divide in_channels 3 and out_channels 4",
    ),
    (
        lambda: nn.Conv2d(1, 1, 1, padding_mode="edge"),
        "tapegrad.nn.Conv2d: padding_mode is 'edge'; it must be one of zeros, reflect, replicate, "
        "circular",
    ),
    (
        lambda: nn.Conv2d(1, 1, 0),
        "tapegrad.nn.Conv2d: kernel_size is 0; it must be an integer of at least 1, or two of them",
    ),
    (
        lambda: nn.BatchNorm2d(3)(np.ones((2, 4, 1, 1))),
        "tapegrad.nn.BatchNorm2d: the input has shape (2, 4, 1, 1); it must be (N, C, H, W) with "
        "C = 3",
    ),
    (
        lambda: nn.BatchNorm1d(3)(np.ones((1, 3))),
        "tapegrad.batch_norm: the input has shape (1, 3), one element per channel; training needs "
        "more",
    ),
    (
        lambda: F.batch_norm(IMAGE, None, None),
        "tapegrad.batch_norm: running_mean or running_var is None; give both, or training=True",
    ),
    (
        lambda: F.linear(SCORES, np.ones((5, 4))),
        "tapegrad.linear: the input has shape (2, 3), the weight (5, 4); they must be (…, "
        "in_features) and (out_features, in_features)",
    ),
    (
        lambda: F.conv2d(SCORES, np.ones((1, 1, 1, 1))),
        "tapegrad.conv2d: the input has shape (2, 3); it must be (N, C, H, W) or (C, H, W)",
    ),
    (
        lambda: F.conv2d(IMAGE, np.ones((1, 3, 1, 1))),
        "tapegrad.conv2d: the input has shape (1, 2, 4, 4), the weight (1, 3, 1, 1), with "
        "groups=1; the weight must be (out, C / groups, height, width), out divisible by groups",
    ),
    (
        lambda: F.conv2d(IMAGE, np.ones((4, 2, 1, 1)), np.ones(3)),
        "tapegrad.conv2d: the bias has shape (3,); it must have one element for each of 4 output "
        "channels",
    ),
    (
        lambda: F.conv2d(IMAGE, np.ones((1, 2, 5, 1)), dilation=(1, 2)),
        "tapegrad.conv2d: the padded input is 4 by 4, but the kernel spans 5 by 1; it must fit",
    ),
    (
        lambda: F.conv2d(IMAGE, np.ones((1, 2, 3, 3)), padding="same", stride=2),
        "tapegrad.conv2d: padding='same' with stride (2, 2); it needs a stride of 1",
    ),
    (
        lambda: F.avg_pool2d(IMAGE, 5),
        "tapegrad.avg_pool2d: the padded input is 4 by 4, but the kernel spans 5 by 5; it must fit",
    ),
    (
        lambda: F.max_pool2d(IMAGE, 2, padding=2),
        "tapegrad.max_pool2d: padding is 2; it must be at most half of kernel_size 2",
    ),
    (
        lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0),
        "tapegrad.avg_pool2d: divisor_override is 0; it must be another number",
    ),
    (
        lambda: F.mse_loss(SCORES, SCORES, "all"),
        "tapegrad.mse_loss: reduction is 'all'; it must be 'none', 'mean' or 'sum'",
    ),
    (
        lambda: F.nll_loss(1.0, 0),
        "tapegrad.nll_loss: the input has no axes; it must be (C,) or (N, C, …)",
    ),
    (
        lambda: F.nll_loss(SCORES, [0, 3]),
        "tapegrad.nll_loss: the target has class 3; classes are from 0 to 2, and ignore_index is "
        "-100",
    ),
    (
        lambda: F.cross_entropy(SCORES, [0]),
        "tapegrad.cross_entropy: the input has shape (2, 3), the target (1,) and dtype int64; it "
        "must hold integers, in the shape of the input without axis 1",
    ),
    (
        lambda: F.cross_entropy(SCORES, [0, 1], np.ones(2)),
        "tapegrad.cross_entropy: weight has shape (2,); it must have one element for each of 3 "
        "classes",
    ),
    (
        lambda: F.cross_entropy(SCORES, [0, 1], RECORDED),
        "tapegrad.cross_entropy: weight is recorded, but has no derivative here; pass detach()",
    ),
    (
        lambda: F.cross_entropy(SCORES, [0, 1], label_smoothing=2),
        "tapegrad.cross_entropy: label_smoothing is 2; it must be from 0 to 1",
    ),
    (
        lambda: F.grid_sample(IMAGE, np.ones((1, 2, 2, 2)), "nearest"),
        "tapegrad.grid_sample: mode is 'nearest'; only 'bilinear' is there",
    ),
    (
        lambda: F.grid_sample(IMAGE, np.ones((1, 2, 2, 2)), padding_mode="reflection"),
        "tapegrad.grid_sample: padding_mode is 'reflection'; it must be 'zeros' or 'border'",
    ),
    (
        lambda: F.grid_sample(IMAGE, np.ones((2, 2, 2, 2))),
        "tapegrad.grid_sample: the input has shape (1, 2, 4, 4), the grid (2, 2, 2, 2); they must "
        "be (N, C, H, W) and (N, H', W', 2)",
    ),
    (
        lambda: F.grid_sample(np.ones((1, 1, 0, 2)), np.ones((1, 2, 2, 2))),
        "tapegrad.grid_sample: the input has shape (1, 1, 0, 2); it has no pixels",
    ),
    (
        lambda: init.calculate_gain("gelu"),
        "tapegrad.calculate_gain: nonlinearity is 'gelu'; it must be one of linear, conv1d, "
        "conv2d, conv3d, sigmoid, tanh, relu, selu, leaky_relu",
    ),
    (
        lambda: init.xavier_uniform_(tg.ones(3)),
        "tapegrad.nn.init: the tensor has shape (3,); fans need at least two axes",
    ),
    (
        lambda: init.kaiming_normal_(tg.ones((3, 3)), mode="in"),
        "tapegrad.kaiming_normal_: mode is 'in'; it must be 'fan_in' or 'fan_out'",
    ),
]


@pytest.mark.parametrize("call, text", CASES, ids=[text[:50] for _, text in CASES])
def test_errors(call, text):
    kinds = (ValueError, TypeError, AttributeError, KeyError, IndexError, NotImplementedError)
    with pytest.raises(kinds) as caught:
        call()
    assert caught.value.args == (text,)


def test_a_loss_of_unequal_shapes_warns():
    text = (
        "tapegrad.mse_loss: the input has shape (2, 3), the target (3,); they are broadcast, "
        "reshape one if that is not meant"
    )
    with pytest.warns(UserWarning) as caught:
        F.mse_loss(SCORES, np.zeros(3))
    assert [str(w.message) for w in caught] == [text]
