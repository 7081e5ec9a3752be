"""Batch normalization with running statistics."""

from __future__ import annotations

import numpy as np

from .._core.operations.creation import tensor
from . import functional as F
from ._module import Module
from ._parameter import Parameter


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
