"""Layers as functions, under PyTorch's names. Tensors or arrays in, the same out."""

from ..._core.tensor.registry import SPACES
from ._layer_functions import (
    batch_norm,
    check_probability,
    dropout,
    linear,
    log_softmax,
    relu,
    sigmoid,
    softmax,
    tanh,
)
from ._losses import cross_entropy, mse_loss, nll_loss
from ._sampling import grid_sample
from ._windows import avg_pool2d, conv2d, max_pool2d

__all__ = [
    "avg_pool2d",
    "batch_norm",
    "check_probability",
    "conv2d",
    "cross_entropy",
    "dropout",
    "grid_sample",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
]

SPACES.append({name: globals()[name] for name in __all__})
