"""Gradients of plain NumPy code: operations are recorded on a flat tape and swept in reverse."""

from . import anomaly as _anomaly
from . import autograd, functional, nn, optim, profiler
from . import gradcheck as _checks
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .compiling import compile
from .custom import elementwise
from .custom_vjp import custom_vjp
from .jacobians import hessian, jacobian
from .loading import load
from .mapping import vmap
from .nn.random import manual_seed
from .program import record
from .projections import check_grads
from .tape.tape import Tape
from .tensor import PUBLIC as _public
from .tensor.runtime import Tensor
from .transforms import elementwise_grad, grad, hvp, jvp, value_and_grad, vjp

__version__ = "0.1.0"

__all__ = [
    "Tape",
    "Tensor",
    "check_grads",
    "compile",
    "custom_vjp",
    "elementwise",
    "elementwise_grad",
    "enable_grad",
    "grad",
    "hessian",
    "hvp",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jacobian",
    "jvp",
    "load",
    "manual_seed",
    "nn",
    "no_grad",
    "optim",
    "record",
    "set_grad_enabled",
    "value_and_grad",
    "vjp",
    "vmap",
    *_public,
]
globals().update(_public)
# What PyTorch has under this name lies on several floors here.
for _module in (_checks, _anomaly):
    vars(autograd).update({name: getattr(_module, name) for name in _module.__all__})
vars(autograd).update(functional=functional, profiler=profiler)
