"""Layers: linear, activations, dropout, convolution, pooling, normalization."""

from __future__ import annotations

import math

import numpy as np

from .._core.operations.creation import tensor
from . import functional as F
from . import init
from ._module import Module, Parameter
from .functional._windows import ends_of, padded, pair

# --- layers ---------------------------------------------------------------------------------------
# Layers that are not convolutions: linear, activations, dropout, flatten.


def initial_weights(module, shape, bias: bool, dtype) -> None:
    """Give a module `weight` of a shape (outputs, inputs, …) and `bias`, filled as in PyTorch.

    Both are uniform within ±1 / √(inputs of an output).
    """
    module.weight = init.kaiming_uniform_(Parameter(np.empty(shape, dtype)), a=math.sqrt(5.0))
    module.register_parameter("bias", None)
    if bias:
        fan_in, _ = init.fans(module.weight)
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        module.bias = init.uniform_(Parameter(np.empty(shape[0], dtype)), -bound, bound)


class Linear(Module):
    """A linear layer: x @ weight.T + bias along the last axis.

    Parameters
    ----------
    in_features, out_features : int
        The lengths of the last axis of input and output; weight has shape (out_features,
        in_features).
    bias : bool, optional
        Whether the layer has a bias.
    dtype : dtype, optional
        The dtype of the parameters.

    Examples
    --------
    >>> import tapegrad as tg
    >>> layer = tg.nn.Linear(4, 2)
    >>> layer(tg.ones((3, 4))).shape
    (3, 2)
    """

    def __init__(self, in_features, out_features, bias=True, dtype=np.float64):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        initial_weights(self, (out_features, in_features), bias, dtype)

    def forward(self, input):
        """See `nn.functional.linear`."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class ReLU(Module):
    """Rectified linear unit: max(x, 0), element by element. The derivative at 0 is 0.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.ReLU()(tg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input):
        """See `nn.functional.relu`."""
        return F.relu(input)


class Tanh(Module):
    """Hyperbolic tangent, element by element.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Tanh()(tg.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input):
        """See `nn.functional.tanh`."""
        return F.tanh(input)


class Sigmoid(Module):
    """Logistic function 1 / (1 + exp(−x)), element by element.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Sigmoid()(tg.tensor([0.0]))
    tensor([0.5])
    """

    def forward(self, input):
        """See `nn.functional.sigmoid`."""
        return F.sigmoid(input)


class Dropout(Module):
    """Dropout: in training, elements are set to 0 at random; in evaluation nothing changes.

    Parameters
    ----------
    p : float, optional
        The probability that an element is 0. The others are divided by 1 − p.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Dropout(0.5).eval()(tg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, p=0.5):
        super().__init__()
        F.check_probability("nn.Dropout", p)
        self.p = p

    def forward(self, input):
        """See `nn.functional.dropout`."""
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Join the axes from `start_dim` to `end_dim`.

    Parameters
    ----------
    start_dim, end_dim : int, optional
        The first and the last of the axes.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Flatten()(tg.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        """The tensor with these axes as one; a view if the elements are in order."""
        shape = np.shape(input)
        start, end = (d + len(shape) if d < 0 else d for d in (self.start_dim, self.end_dim))
        if not 0 <= start <= end < len(shape):
            raise ValueError(
                f"tapegrad.nn.Flatten: start_dim={self.start_dim}, end_dim={self.end_dim} name no "
                f"run of axes of an input of shape {shape}"
            )
        length = math.prod(shape[start : end + 1])
        return np.reshape(input, (*shape[:start], length, *shape[end + 1 :]))

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


# --- convolution ----------------------------------------------------------------------------------
# Layers over windows of images: convolution and pooling.

#: PyTorch's names of padding modes and NumPy's.
_PADDINGS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class Conv2d(Module):
    """Cross-correlation of images (N, C, H, W) with kernels.

    Parameters
    ----------
    in_channels, out_channels : int
        The numbers of channels; `weight` has shape (out_channels, in_channels / groups, height,
        width).
    kernel_size : int or pair of ints
        The size of the kernels.
    stride : int or pair of ints, optional
        The steps between windows.
    padding : int, pair of ints, "valid" or "same", optional
        The number of elements added at each end of the axes.
    dilation : int or pair of ints, optional
        The distance between the elements of a window.
    groups : int, optional
        The number of groups of channels that are not connected.
    bias : bool, optional
        Whether the layer has a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        The values of the added elements.
    dtype : dtype, optional
        The dtype of the parameters.

    Raises
    ------
    ValueError
        If the settings do not fit together.

    Examples
    --------
    >>> import tapegrad as tg
    >>> layer = tg.nn.Conv2d(3, 8, kernel_size=3, padding=1)
    >>> layer(tg.ones((2, 3, 10, 10))).shape
    (2, 8, 10, 10)
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        dtype=np.float64,
    ):
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"tapegrad.nn.Conv2d: groups is {groups}; it must divide in_channels "
                f"{in_channels} and out_channels {out_channels}"
            )
        if padding_mode not in ("zeros", *_PADDINGS):
            raise ValueError(
                f"tapegrad.nn.Conv2d: padding_mode is {padding_mode!r}; it must be one of zeros, "
                f"{', '.join(_PADDINGS)}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = pair("nn.Conv2d", "kernel_size", kernel_size)
        self.stride = pair("nn.Conv2d", "stride", stride)
        self.dilation = pair("nn.Conv2d", "dilation", dilation)
        named = isinstance(padding, str)
        self.padding = padding if named else pair("nn.Conv2d", "padding", padding, 0)
        self.groups, self.padding_mode = groups, padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        initial_weights(self, shape, bias, dtype)

    def forward(self, input):
        """See `nn.functional.conv2d`."""
        padding = self.padding
        if self.padding_mode != "zeros":
            ends = ends_of("nn.Conv2d", padding, self.kernel_size, self.stride, self.dilation)
            input = padded(input, ends, _PADDINGS[self.padding_mode])
            padding = 0
        return F.conv2d(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class AvgPool2d(Module):
    """Means of the windows of images (N, C, H, W).

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        As in `nn.functional.avg_pool2d`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.AvgPool2d(2)(tg.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        super().__init__()
        self.kernel_size, self.padding, self.ceil_mode = kernel_size, padding, ceil_mode
        self.stride = kernel_size if stride is None else stride
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input):
        """See `nn.functional.avg_pool2d`."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(Module):
    """Largest elements of the windows of images (N, C, H, W).

    Parameters
    ----------
    kernel_size, stride, padding, dilation, ceil_mode
        As in `nn.functional.max_pool2d`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.MaxPool2d(2)(tg.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.dilation, self.ceil_mode = dilation, ceil_mode

    def forward(self, input):
        """See `nn.functional.max_pool2d`."""
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


# --- normalization --------------------------------------------------------------------------------
# Batch normalization with running statistics.


class _BatchNorm(Module):
    _ndims: tuple[int, ...]
    _shapes: str

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        dtype=np.float64,
        *,
        bias=True,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        one, zero = np.ones(num_features, dtype), np.zeros(num_features, dtype)
        self.register_parameter("weight", Parameter(one) if affine else None)
        self.register_parameter("bias", Parameter(zero) if affine and bias else None)
        start = (tensor(zero), tensor(one), tensor(0)) if track_running_stats else (None,) * 3
        names = ("running_mean", "running_var", "num_batches_tracked")
        for name, statistic in zip(names, start, strict=True):
            self.register_buffer(name, statistic)

    def forward(self, input):
        """See `nn.functional.batch_norm`."""
        shape = np.shape(input)
        if len(shape) not in self._ndims or shape[1] != self.num_features:
            raise ValueError(
                f"tapegrad.nn.{type(self).__name__}: the input has shape {shape}; it must be "
                f"{self._shapes} with C = {self.num_features}"
            )
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked[...] = self.num_batches_tracked + 1
            if momentum is None:  # the mean of all batches so far
                momentum = 1.0 / self.num_batches_tracked.item()
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of the channels of (N, C) or (N, C, L).

    Channels are shifted and scaled to mean 0 and variance 1, with the statistics of the batch in
    training and the running statistics in evaluation.

    Parameters
    ----------
    num_features : int
        The number C of channels.
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of a batch in the running statistics; with None all batches have the same weight.
    affine : bool, optional
        Whether the result is multiplied by `weight` and shifted by `bias`.
    track_running_stats : bool, optional
        Whether there are running statistics, `running_mean` and `running_var`.
    dtype : dtype, optional
        The dtype of the parameters.
    bias : bool, optional
        Whether there is a `bias`.

    References
    ----------
    Ioffe and Szegedy, "Batch normalization" (2015).

    Examples
    --------
    >>> import tapegrad as tg
    >>> layer = tg.nn.BatchNorm1d(1)
    >>> layer(tg.tensor([[1.0], [3.0]])).detach().numpy().round(4).tolist()
    [[-1.0], [1.0]]
    """

    _ndims, _shapes = (2, 3), "(N, C) or (N, C, L)"


class BatchNorm2d(_BatchNorm):
    """Batch normalization of the channels of images (N, C, H, W).

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, dtype, bias
        As in `BatchNorm1d`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.BatchNorm2d(3)(tg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _ndims, _shapes = (4,), "(N, C, H, W)"
