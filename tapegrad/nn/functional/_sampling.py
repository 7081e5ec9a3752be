"""Images sampled between their pixels."""

from __future__ import annotations

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.tensor.trace import fixed, steered


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
