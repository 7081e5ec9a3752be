"""Layers over windows of images: convolution and pooling."""

from __future__ import annotations

import numpy as np

from . import functional as F
from ._layers import initial_weights
from ._module import Module
from .functional._windows import ends_of, padded, pair

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
