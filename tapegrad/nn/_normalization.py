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
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Channels of (N, C) or (N, C, L) shifted and scaled to mean 0 and variance 1.

    In training by the statistics of the batch, which are averaged into `running_mean` and
    `running_var` with weight `momentum` (None: all batches count alike); in evaluation by these.
    Then, if `affine`, multiplied by `weight` and shifted by `bias`. Ioffe and Szegedy, "Batch
    normalization" (2015).

    >>> import tapegrad as tg
    >>> layer = tg.nn.BatchNorm1d(1)
    >>> layer(tg.tensor([[1.0], [3.0]])).detach().numpy().round(4).tolist()
    [[-1.0], [1.0]]
    """

    _ndims, _shapes = (2, 3), "(N, C) or (N, C, L)"


class BatchNorm2d(_BatchNorm):
    """Channels of images (N, C, H, W) shifted and scaled to mean 0 and variance 1.

    See `BatchNorm1d`.
    """

    _ndims, _shapes = (4,), "(N, C, H, W)"
