from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ..._core.tensor.tensor_classes import Tensor

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

_Pair = int | tuple[int, int]
_Reduction = Literal["mean", "sum", "none"]

def check_probability(name: str, p: float) -> None: ...
@overload
def linear(input: Tensor, weight: ArrayLike, bias: ArrayLike | None = None) -> Tensor: ...
@overload
def linear(input: ArrayLike, weight: Tensor, bias: ArrayLike | None = None) -> Tensor: ...
@overload
def linear(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Any: ...
@overload
def relu(input: Tensor) -> Tensor: ...
@overload
def relu(input: ArrayLike) -> Any: ...
@overload
def sigmoid(input: Tensor) -> Tensor: ...
@overload
def sigmoid(input: ArrayLike) -> Any: ...
@overload
def tanh(input: Tensor) -> Tensor: ...
@overload
def tanh(input: ArrayLike) -> Any: ...
@overload
def softmax(input: Tensor, dim: int) -> Tensor: ...
@overload
def softmax(input: ArrayLike, dim: int) -> Any: ...
@overload
def log_softmax(input: Tensor, dim: int) -> Tensor: ...
@overload
def log_softmax(input: ArrayLike, dim: int) -> Any: ...
@overload
def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    generator: np.random.Generator | None = None,
) -> Tensor: ...
@overload
def dropout(
    input: ArrayLike,
    p: float = 0.5,
    training: bool = True,
    generator: np.random.Generator | None = None,
) -> Any: ...
@overload
def batch_norm(
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor: ...
@overload
def batch_norm(
    input: ArrayLike,
    running_mean: Any,
    running_var: Any,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Any: ...
@overload
def conv2d(
    input: Tensor,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    stride: _Pair = 1,
    padding: _Pair | str = 0,
    dilation: _Pair = 1,
    groups: int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: ArrayLike,
    weight: Tensor,
    bias: ArrayLike | None = None,
    stride: _Pair = 1,
    padding: _Pair | str = 0,
    dilation: _Pair = 1,
    groups: int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    stride: _Pair = 1,
    padding: _Pair | str = 0,
    dilation: _Pair = 1,
    groups: int = 1,
) -> Any: ...
@overload
def avg_pool2d(
    input: Tensor,
    kernel_size: _Pair,
    stride: _Pair | None = None,
    padding: _Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor: ...
@overload
def avg_pool2d(
    input: ArrayLike,
    kernel_size: _Pair,
    stride: _Pair | None = None,
    padding: _Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: _Pair,
    stride: _Pair | None = None,
    padding: _Pair = 0,
    dilation: _Pair = 1,
    ceil_mode: bool = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: ArrayLike,
    kernel_size: _Pair,
    stride: _Pair | None = None,
    padding: _Pair = 0,
    dilation: _Pair = 1,
    ceil_mode: bool = False,
) -> Any: ...
@overload
def grid_sample(
    input: Tensor,
    grid: ArrayLike,
    mode: Literal["bilinear"] = "bilinear",
    padding_mode: Literal["zeros", "border"] = "zeros",
    align_corners: bool = False,
) -> Tensor: ...
@overload
def grid_sample(
    input: ArrayLike,
    grid: Tensor,
    mode: Literal["bilinear"] = "bilinear",
    padding_mode: Literal["zeros", "border"] = "zeros",
    align_corners: bool = False,
) -> Tensor: ...
@overload
def grid_sample(
    input: ArrayLike,
    grid: ArrayLike,
    mode: Literal["bilinear"] = "bilinear",
    padding_mode: Literal["zeros", "border"] = "zeros",
    align_corners: bool = False,
) -> Any: ...
@overload
def cross_entropy(
    input: Tensor,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: _Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor: ...
@overload
def cross_entropy(
    input: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: _Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Any: ...
@overload
def nll_loss(
    input: Tensor,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: _Reduction = "mean",
) -> Tensor: ...
@overload
def nll_loss(
    input: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: _Reduction = "mean",
) -> Any: ...
@overload
def mse_loss(input: Tensor, target: ArrayLike, reduction: _Reduction = "mean") -> Tensor: ...
@overload
def mse_loss(input: ArrayLike, target: Tensor, reduction: _Reduction = "mean") -> Tensor: ...
@overload
def mse_loss(input: ArrayLike, target: ArrayLike, reduction: _Reduction = "mean") -> Any: ...
