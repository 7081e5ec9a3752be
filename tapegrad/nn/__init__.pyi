from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, overload

from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import Self

from .._core.tensor.tensor_classes import Tensor
from . import functional as functional
from . import init as init

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

class Parameter(Tensor):
    def __new__(cls, data: ArrayLike, requires_grad: bool = True) -> Self: ...

class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

class Module:
    training: bool
    #: Classes take the arguments that they like.
    forward: Callable[..., Any]
    def __init__(self) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __delattr__(self, name: str) -> None: ...
    def __dir__(self) -> list[str]: ...
    def register_parameter(self, name: str, param: Tensor | None) -> None: ...
    def register_buffer(
        self, name: str, tensor: ArrayLike | None, persistent: bool = True
    ) -> None: ...
    def register_module(self, name: str, module: Module | None) -> None: ...
    def add_module(self, name: str, module: Module | None) -> None: ...
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]: ...
    def modules(self) -> Iterator[Module]: ...
    def named_children(self) -> Iterator[tuple[str, Module]]: ...
    def children(self) -> Iterator[Module]: ...
    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]: ...
    def parameters(self, recurse: bool = True) -> Iterator[Parameter]: ...
    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]: ...
    def buffers(self, recurse: bool = True) -> Iterator[Any]: ...
    def state_dict(self, prefix: str = "") -> dict[str, NDArray[Any]]: ...
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> _IncompatibleKeys: ...
    def train(self, mode: bool = True) -> Self: ...
    def eval(self) -> Self: ...
    def requires_grad_(self, requires_grad: bool = True) -> Self: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def apply(self, fn: Callable[[Module], Any]) -> Self: ...
    def extra_repr(self) -> str: ...

class Sequential(Module):
    @overload
    def __init__(self, modules: OrderedDict[str, Module], /) -> None: ...
    @overload
    def __init__(self, *modules: Module) -> None: ...
    def forward(self, input: Any) -> Any: ...
    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __setitem__(self, index: int, module: Module) -> None: ...
    def __delitem__(self, index: int | slice) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Module]: ...
    def append(self, module: Module) -> Self: ...

_Pair = int | tuple[int, int]

class Linear(Module):
    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DTypeLike = ...,
    ) -> None: ...
    def forward(self, input: ArrayLike) -> Tensor: ...

class Conv2d(Module):
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    weight: Parameter
    bias: Parameter | None
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Pair,
        stride: _Pair = 1,
        padding: _Pair | str = 0,
        dilation: _Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: DTypeLike = ...,
    ) -> None: ...
    def forward(self, input: ArrayLike) -> Tensor: ...

class AvgPool2d(Module):
    def __init__(
        self,
        kernel_size: _Pair,
        stride: _Pair | None = None,
        padding: _Pair = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None: ...
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class MaxPool2d(Module):
    def __init__(
        self,
        kernel_size: _Pair,
        stride: _Pair | None = None,
        padding: _Pair = 0,
        dilation: _Pair = 1,
        ceil_mode: bool = False,
    ) -> None: ...
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class _BatchNorm(Module):
    num_features: int
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Any
    running_var: Any
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: DTypeLike = ...,
        *,
        bias: bool = True,
    ) -> None: ...
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class BatchNorm1d(_BatchNorm): ...
class BatchNorm2d(_BatchNorm): ...

class Dropout(Module):
    p: float
    def __init__(self, p: float = 0.5) -> None: ...
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class Flatten(Module):
    start_dim: int
    end_dim: int
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None: ...
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class ReLU(Module):
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class Sigmoid(Module):
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...

class Tanh(Module):
    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: ArrayLike) -> Any: ...
