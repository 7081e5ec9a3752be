"""Floor 5: PyTorch's front. Gradients, the graph, hooks, functions of your own, and the modes."""

from . import function, grad_mode, graph
from ._engine import backward, grad
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "function",
    "grad",
    "grad_mode",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
