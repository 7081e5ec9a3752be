"""Layers as functions, under PyTorch's names. Tensors or arrays in, the same out."""

from ..._core.tensor.registry import SPACES
from ._layer_functions import (
    batch_norm,
    check_probability,
    cross_entropy,
    dropout,
    linear,
    log_softmax,
    mse_loss,
    nll_loss,
    relu,
    sigmoid,
    softmax,
    tanh,
)
from ._windows import avg_pool2d, conv2d, grid_sample, max_pool2d

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
