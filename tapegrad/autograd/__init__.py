"""PyTorch's autograd: gradients, the graph, hooks, own functions, modes, checks, profiles."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._core.later import later as _later
from . import function, grad_mode, graph
from ._engine import backward, grad
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

if _TYPE_CHECKING:
    from . import functional, profiler

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
]

__getattr__, __dir__ = _later(globals(), {"functional": ".functional", "profiler": ".profiler"})
