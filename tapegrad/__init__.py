"""Gradients of plain NumPy code: operations are recorded on a flat tape and swept in reverse."""

import types as _types

from . import autograd
from ._core.config import config
from ._core.later import later as _later
from ._core.tape.tape import Tape
from ._core.tensor.pytree import stop_gradient
from ._core.tensor.tensor_classes import Tensor
from ._core.tensor.trace import DerivativeLost
from ._core.tensor.values import ComplexTensor
from ._functions import EARLY as _EARLY
from ._functions import LATER as _FUNCTIONS
from ._program import record
from ._transforms.gradients import elementwise_grad, grad, value_and_grad
from ._transforms.jacobians import hessian, hvp, jacobian, jvp, vjp
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__version__ = "0.1.0"

__all__ = [
    "Compiled",
    "ComplexTensor",
    "DerivativeLost",
    "Tape",
    "Tensor",
    "autograd",
    "check_grads",
    "checkpoint",
    "compile",
    "config",
    "custom_vjp",
    "elementwise",
    "elementwise_grad",
    "enable_grad",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "implicit",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jacobian",
    "jvp",
    "load",
    "manual_seed",
    "math",
    "nn",
    "no_grad",
    "numpy",
    "optim",
    "record",
    "scipy",
    "set_grad_enabled",
    "show_config",
    "stop_gradient",
    "testing",
    "value_and_grad",
    "vjp",
    "vmap",
    *_EARLY,
    *_FUNCTIONS,
]

#: What many programs do not need; programs alone are a fifth of the package.
_LATER = {
    "_operation_of": "._custom.elementwise:operation_of",  # pickles name it
    "check_grads": ".testing:check_grads",
    "checkpoint": "._checkpoint:checkpoint",
    "Compiled": "._program.compiled:Compiled",
    "compile": "._program.compile:compile",
    "custom_vjp": "._custom.custom_vjp:custom_vjp",
    "elementwise": "._custom.elementwise:elementwise",
    "fixed_point": "._implicit.implicit:fixed_point",
    "implicit": "._implicit.implicit:implicit",
    "load": "._program.load:load",
    "manual_seed": ".nn.functional._layer_functions:manual_seed",
    "math": ".math",
    "nn": ".nn",
    "numpy": ".numpy",
    "optim": ".optim",
    "scipy": ".scipy",
    "show_config": "._configuration:show_config",
    "testing": ".testing",
    "vmap": "._batching.vmap:vmap",
    **{name: f"._functions:{name}" for name in _FUNCTIONS},
}
__getattr__, __dir__ = _later(globals(), _LATER)

globals().update(_EARLY)

# Pickles name functions and classes by their modules: by this one, wherever the code moves.
for _name in {*__all__} - {*_LATER}:
    if isinstance(_given := globals()[_name], (type, _types.FunctionType)):
        _given.__module__, _given.__qualname__ = __name__, _name
