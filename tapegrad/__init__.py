"""Gradients of plain NumPy code: operations are recorded on a flat tape and swept in reverse."""

import importlib as _importlib
import types as _types
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import autograd, nn, optim, testing
from ._core.operations import PUBLIC as _public
from ._core.tape.tape import Tape
from ._core.tensor.runtime import Tensor
from ._custom.custom_vjp import custom_vjp
from ._custom.elementwise import elementwise
from ._custom.elementwise import operation_of as _operation_of  # noqa: F401  # pickles name it
from ._program import record
from ._transforms.gradients import elementwise_grad, grad, hvp, jvp, value_and_grad, vjp
from ._transforms.jacobians import hessian, jacobian
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .nn.functional._random import manual_seed
from .testing import check_grads

if _TYPE_CHECKING:
    from ._batching.vmap import vmap
    from ._program.compile import compile
    from ._program.load import load

__version__ = "0.1.0"

__all__ = [
    "Tape",
    "Tensor",
    "autograd",
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
    "testing",
    "value_and_grad",
    "vjp",
    "vmap",
    *_public,
]
globals().update(_public)
# Pickles name functions and classes by their modules: by this one, wherever the code moves.
for _name in {*__all__, "_operation_of"} - {"compile", "load", "vmap"}:
    if isinstance(_given := globals()[_name], (type, _types.FunctionType)):
        _given.__module__, _given.__qualname__ = __name__, _name

#: Programs are a fifth of the package: imported when first asked for. So is what is seldom used.
_LATER = {
    "compile": "._program.compile",
    "load": "._program.load",
    "vmap": "._batching.vmap",
}


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_importlib.import_module(_LATER[name], __name__), name)
    found.__module__, found.__qualname__ = __name__, name
    return found


def __dir__():
    return sorted({*globals(), *_LATER})
