"""Modules under PyTorch's names, enough for the textbook examples of autograd."""

from . import functional, init
from ._layers import (
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    ReLU,
    Sigmoid,
    Tanh,
)
from ._module import Module, Parameter, Sequential

__all__ = [
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "Dropout",
    "Flatten",
    "Linear",
    "MaxPool2d",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Tanh",
    "functional",
    "init",
]

# Pickles name a class by its module: by this one, wherever the code moves.
for _name in __all__:
    if isinstance(_given := globals()[_name], type):
        _given.__module__ = __name__
