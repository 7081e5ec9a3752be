"""Gradients of plain NumPy code: operations are recorded on a flat tape and swept in reverse."""

from . import nn, optim
from .autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .nn.random import manual_seed
from .program import record
from .tape.tape import Tape
from .tensor import PUBLIC as _public
from .tensor.runtime import Tensor
from .transforms import elementwise_grad, grad, jacobian, value_and_grad, vjp

__version__ = "0.1.0"

__all__ = [
    "Tape",
    "Tensor",
    "elementwise_grad",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "jacobian",
    "manual_seed",
    "nn",
    "no_grad",
    "optim",
    "record",
    "set_grad_enabled",
    "value_and_grad",
    "vjp",
    *_public,
]
globals().update(_public)
