"""Convolution and pooling, on windows that are views of the padded image; sampled images."""

from __future__ import annotations

import functools

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.operations.shapes import sliding_window_view
from ..._core.tensor.trace import fixed, steered
from ..._core.tensor.values import array_of

# --- windows --------------------------------------------------------------------------------------
# Convolution and pooling, on windows that are views of the padded image.
#
# A view costs nothing in reverse: an element of many windows collects its adjoint from all of them
# in one place.

Pair = tuple[int, int]


def pair(name: str, argument: str, value, least: int = 1) -> Pair:
    """A number as two, or two; each an integer of at least `least`."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in both)
    if len(both) != 2 or not whole or min(both) < least:
        raise ValueError(
            f"tapegrad.{name}: {argument} is {value!r}; it must be an integer of at least {least}, "
            "or two of them"
        )
    return both


def padded(input, ends, mode="constant", **options):
    """An image with elements added at its ends, ((top, bottom), (left, right))."""
    if not any(map(any, ends)):
        return input
    before = [(0, 0)] * (len(np.shape(input)) - 2)
    return np.pad(input, [*before, *ends], mode, **options)


def check_fits(name: str, size, kernel: Pair, dilation: Pair) -> None:
    """Refuse a kernel that reaches farther than the image with its padding."""
    down, right = (d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    if size[0] < down or size[1] < right:
        raise ValueError(
            f"tapegrad.{name}: the padded input is {size[0]} by {size[1]}, but the kernel spans "
            f"{down} by {right}; it must fit"
        )


def windows(input, kernel: Pair, stride: Pair, dilation: Pair):
    """All windows of the last two axes, (…, H, W, height, width); a view."""
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    (down, right), (apart, across) = stride, dilation
    every = sliding_window_view(input, span, (-2, -1))
    return every[..., ::down, ::right, ::apart, ::across]


def cells(input, kernel: Pair, stride: Pair, dilation: Pair = (1, 1)) -> list:
    """The first cells of all windows, the second ones, …; views."""
    seen = windows(input, kernel, stride, dilation)
    return [seen[..., i, j] for i, j in np.ndindex(kernel)]


def check_image(name: str, input) -> tuple[int, ...]:
    """The shape of one image or a batch of them."""
    shape = np.shape(input)
    if len(shape) not in (3, 4):
        raise ValueError(
            f"tapegrad.{name}: the input has shape {shape}; it must be (N, C, H, W) or (C, H, W)"
        )
    return shape


# --- convolution ------------------------------------------------------------------------------


def ends_of(name: str, padding, kernel, stride, dilation) -> tuple[Pair, ...]:
    """The numbers of elements added at the ends of the two axes, from a padding of PyTorch."""
    if padding == "valid":
        return ((0, 0), (0, 0))
    if padding != "same":
        return tuple((p, p) for p in pair(name, "padding", padding, 0))
    if stride != (1, 1):
        raise ValueError(
            f"tapegrad.{name}: padding='same' with stride {stride}; it needs a stride of 1"
        )
    extra = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple((n // 2, n - n // 2) for n in extra)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Compute the cross-correlation of images with kernels.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        The images.
    weight : array_like, shape (out, C / groups, height, width)
        The kernels.
    bias : array_like, shape (out,), optional
        The bias.
    stride : int or pair of ints, optional
        The steps between windows.
    padding : int, pair of ints, "valid" or "same", optional
        How many zeros are added at each end of the axes.
    dilation : int or pair of ints, optional
        The distance between the elements of a window.
    groups : int, optional
        The number of groups of channels that are not connected.

    Returns
    -------
    Tensor or ndarray

    Raises
    ------
    ValueError
        If shapes do not fit; the message has them.

    Notes
    -----
    Each image and group is computed as one matrix product.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.arange(9.0).reshape(1, 1, 3, 3)
    >>> tg.nn.functional.conv2d(x, tg.ones((1, 1, 2, 2)))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    shape, kernel = check_image("conv2d", input), np.shape(weight)
    _check_channels(shape, kernel, np.shape(bias) if bias is not None else None, groups)
    stride, dilation = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    ends = ends_of("conv2d", padding, kernel[2:], stride, dilation)
    images = 1 if len(shape) == 3 else shape[0]
    image = np.reshape(input, (images, groups, kernel[1], *shape[-2:]))
    image = padded(image, ends)
    check_fits("conv2d", np.shape(image)[-2:], kernel[2:], dilation)
    seen = windows(image, kernel[2:], stride, dilation)
    weights = np.reshape(weight, (groups, kernel[0] // groups, *kernel[1:]))
    weights = np.broadcast_to(weights, (images, *np.shape(weights)))
    out = np.einsum("ngocij,ngchwij->ngohw", weights, seen)
    out = np.reshape(out, (*shape[:-3], kernel[0], *np.shape(out)[-2:]))
    return out if bias is None else out + np.reshape(bias, (-1, 1, 1))


def _check_channels(shape, kernel, bias, groups) -> None:
    fits = len(kernel) == 4 and groups >= 1
    if not fits or shape[-3] != kernel[1] * groups or kernel[0] % groups:
        raise ValueError(
            f"tapegrad.conv2d: the input has shape {shape}, the weight {kernel}, with groups="
            f"{groups}; the weight must be (out, C / groups, height, width), out divisible by "
            "groups"
        )
    if bias not in (None, kernel[:1]):
        raise ValueError(
            f"tapegrad.conv2d: the bias has shape {bias}; it must have one element for each of "
            f"{kernel[0]} output channels"
        )


# --- pooling ----------------------------------------------------------------------------------


class _Pool:
    """The positions of the windows of a pooling."""

    def __init__(self, name, input, kernel, stride, padding, dilation, ceil_mode):
        self.size = check_image(name, input)[-2:]
        self.kernel = pair(name, "kernel_size", kernel)
        self.stride = self.kernel if stride is None else pair(name, "stride", stride)
        self.padding = pair(name, "padding", padding, 0)
        self.dilation = pair(name, "dilation", dilation)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel, strict=True)):
            raise ValueError(
                f"tapegrad.{name}: padding is {padding}; it must be at most half of kernel_size "
                f"{kernel}"
            )
        lines = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        self.ends = [_ends(*line, ceil_mode) for line in lines]
        size = [n + sum(ends) for n, ends in zip(self.size, self.ends, strict=True)]
        check_fits(name, size, self.kernel, self.dilation)

    def first_of(self, values, wanted) -> np.ndarray:
        """Position in its image of each window's first element with a given value."""
        places = np.arange(self.size[0] * self.size[1]).reshape(self.size)
        places = padded(places, self.ends, constant_values=-1)
        places = np.stack(cells(places, self.kernel, self.stride, self.dilation))
        before, found = np.zeros(wanted.shape, np.int32), np.zeros(wanted.shape, bool)
        for value, place in zip(values, places, strict=True):
            found |= ((value == wanted) | np.isnan(value)) & (place >= 0)
            before += ~found
        count = places[0].size
        return np.take(places, before * count + np.arange(count).reshape(places[0].shape))

    def largest(self, array) -> np.ndarray:
        """Position in all images of each window's first cell of those with the largest value."""
        array = array if array.dtype.kind == "f" else array.astype(np.float64)
        image = padded(array, self.ends, constant_values=-np.inf)
        values = cells(image, self.kernel, self.stride, self.dilation)
        picked = self.first_of(values, functools.reduce(np.maximum, values))
        images = np.arange(int(np.prod(array.shape[:-2]))).reshape(*array.shape[:-2], 1, 1)
        return picked + images * (self.size[0] * self.size[1])

    def counts(self, include_pad: bool) -> np.ndarray:
        """The number of elements of each window that count: those added by ceil_mode never do."""
        along = []
        lines = zip(self.size, self.kernel, self.stride, self.padding, self.ends, strict=True)
        for n, k, s, p, (before, after) in lines:
            start = np.arange(0, before + n + after - k + 1, s)
            low, high = (0, n + 2 * p) if include_pad else (p, n + p)
            along.append(np.minimum(start + k, high) - np.maximum(start, low))
        return np.outer(*along)


def _ends(n, kernel, stride, padding, dilation, ceil_mode) -> Pair:
    """Cells to add before and after an axis; `ceil_mode` adds some for a last window.

    A window must start within the axis or the padding before it, as in PyTorch.
    """
    rest = n + 2 * padding - dilation * (kernel - 1) - 1
    extra = -rest % stride if ceil_mode and rest >= 0 else 0
    if extra and rest + extra >= n + padding:
        extra = 0
    return padding, padding + extra


def avg_pool2d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """Compute the means of the windows of images.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        The images.
    kernel_size : int or pair of ints
        The size of the windows.
    stride : int or pair of ints, optional
        The steps between windows; by default their size.
    padding : int or pair of ints, optional
        How many zeros are added at each end of the axes.
    ceil_mode : bool, optional
        Whether the last window may extend beyond the end.
    count_include_pad : bool, optional
        Whether the elements added by `padding` count in the divisor.
    divisor_override : int, optional
        The divisor, instead of the number of elements.

    Returns
    -------
    Tensor or ndarray

    Raises
    ------
    ValueError
        If sizes do not fit.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.avg_pool2d(tg.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5,  4.5],
             [10.5, 12.5]]])
    """
    pool = _Pool("avg_pool2d", input, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override == 0:
        raise ValueError("tapegrad.avg_pool2d: divisor_override is 0; it must be another number")
    total, (height, width), (down, right) = padded(input, pool.ends), pool.kernel, pool.stride
    for kernel, steps in (((1, width), (1, right)), ((height, 1), (down, 1))):
        total = functools.reduce(np.add, cells(total, kernel, steps))
    if divisor_override is not None:
        return total / divisor_override
    counts = pool.counts(count_include_pad)
    if np.all(counts == counts.flat[0]):
        return total / float(counts.flat[0])
    return total / counts.astype(array_of(input).dtype)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Find the largest elements of the windows of images.

    The first of equal elements has the derivative. A NaN counts as the largest.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        The images.
    kernel_size : int or pair of ints
        The size of the windows.
    stride : int or pair of ints, optional
        The steps between windows; by default their size.
    padding : int or pair of ints, optional
        The number of elements added at each end of the axes. They are never the largest.
    dilation : int or pair of ints, optional
        The distance between the elements of a window.
    ceil_mode : bool, optional
        Whether the last window may extend beyond the end.

    Returns
    -------
    Tensor or ndarray

    Raises
    ------
    ValueError
        If sizes do not fit.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.max_pool2d(tg.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    pool = _Pool("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)
    return np.take(input, steered(pool.largest, input))


# --- sampling -------------------------------------------------------------------------------------
# Images sampled between their pixels.


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Sample images at positions between their pixels, bilinearly.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W)
        The images.
    grid : array_like, shape (N, H', W', 2)
        The positions (x, y), from −1 at one border to 1 at the other. A NaN is read as −1.
    mode : {"bilinear"}, optional
        The interpolation.
    padding_mode : {"zeros", "border"}, optional
        Whether the value outside is zero, or that of the nearest pixel.
    align_corners : bool, optional
        Whether the borders are the centres of the corner pixels, or their outer edges.

    Returns
    -------
    Tensor or ndarray, shape (N, C, H', W')

    Raises
    ------
    ValueError
        If a mode is not known, or shapes do not fit.

    Examples
    --------
    >>> import tapegrad as tg
    >>> image = tg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> tg.nn.functional.grid_sample(image, tg.tensor([[[[0.0, 0.0]]]]))
    tensor([[[[2.5]]]])
    """
    shape, places = np.shape(input), np.shape(grid)
    _check(mode, padding_mode, shape, places)
    if fixed(steered(_has_nan, grid), "grid_sample()"):
        grid = PUBLIC["where"](steered(np.isnan, grid), -1.0, grid)
    border = padding_mode == "border"
    if not border:  # a ring of zeros, wide enough for every place that touches the image
        input = np.pad(input, [(0, 0), (0, 0), (1, 2), (1, 2)])
    column, right = _place(grid[..., 0], shape[3], border, align_corners)
    row, down = _place(grid[..., 1], shape[2], border, align_corners)
    images = _Pixels(input)
    above = _between(images.at(row, column), images.at(row, column + 1), right)
    below = _between(images.at(row + 1, column), images.at(row + 1, column + 1), right)
    return _between(above, below, down)


def _check(mode, padding_mode, shape, places) -> None:
    if mode != "bilinear":
        raise ValueError(f"tapegrad.grid_sample: mode is {mode!r}; only 'bilinear' is there")
    if padding_mode not in ("zeros", "border"):
        raise ValueError(
            f"tapegrad.grid_sample: padding_mode is {padding_mode!r}; it must be 'zeros' or "
            "'border'"
        )
    if len(shape) != 4 or len(places) != 4 or places[-1] != 2 or places[0] != shape[0]:
        raise ValueError(
            f"tapegrad.grid_sample: the input has shape {shape}, the grid {places}; they must be "
            "(N, C, H, W) and (N, H', W', 2)"
        )
    if 0 in shape[2:]:
        raise ValueError(f"tapegrad.grid_sample: the input has shape {shape}; it has no pixels")


def _place(x, size: int, border: bool, align_corners: bool):
    """Index of the pixel before each place, and how far the place is behind it."""
    x = (x + 1.0) * (0.5 * (size - 1)) if align_corners else (x + 1.0) * (0.5 * size) - 0.5
    low, high = (0, size - 1) if border else (-1, size)
    # outside, the place is clamped and has no derivative; at a border pixel too, as in PyTorch
    inside = steered(_inside, x, low=low, high=high, border=border)
    x = PUBLIC["where"](inside, x, steered(np.clip, x, low, high))
    before = steered(np.floor, x)
    return steered(_pixel, before, skipped=0 if border else 1), x - before


def _has_nan(grid):
    return np.isnan(grid).any()


def _inside(x, low, high, border):
    return (x > low) & (x < high) if border else (x >= low) & (x <= high)


def _pixel(before, skipped):
    return before.astype(np.int64) + skipped


def _between(a, b, share):
    """Linear interpolation, the same share for all channels."""
    return a + (b - a) * share[:, None]


class _Pixels:
    """The pixels of images, to be picked by row and column, the same for all channels."""

    def __init__(self, input):
        self.input = input
        count, channels, self.height, self.width = np.shape(input)
        planes = np.arange(count * channels).reshape(count, channels, 1, 1)
        self.first = planes * (self.height * self.width)

    def at(self, row, column):
        """Pixels (N, C, H', W') at rows and columns (N, H', W'), which end at the last ones."""
        picked = steered(_picked, row, column, first=self.first, size=(self.height, self.width))
        return np.take(self.input, picked)


def _picked(row, column, first, size):
    """Positions in all images of the pixels at rows and columns, which end at the last ones."""
    row, column = np.minimum(row, size[0] - 1), np.minimum(column, size[1] - 1)
    return first + (row * size[1] + column)[:, None]
