from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from numpy.typing import NDArray

from .._core.tensor.tensor_classes import Tensor

__all__ = ["SGD", "Adam", "Optimizer"]

_Loss = TypeVar("_Loss")
_Parameters = Iterable[Tensor] | Iterable[Mapping[str, Any]]

class Optimizer:
    defaults: dict[str, Any]
    param_groups: list[dict[str, Any]]
    state: dict[Any, dict[str, Any]]
    def __init__(self, params: _Parameters, defaults: Mapping[str, Any]) -> None: ...
    def add_param_group(self, param_group: Mapping[str, Any]) -> None: ...
    def check(self, group: Mapping[str, Any]) -> None: ...
    def refuse_unless(
        self, fits: bool, group: Mapping[str, Any], name: str, needed: str
    ) -> None: ...
    def update(
        self,
        value: NDArray[Any],
        gradient: NDArray[Any],
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> NDArray[Any]: ...
    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], _Loss]) -> _Loss: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...

class SGD(Optimizer):
    def __init__(
        self,
        params: _Parameters,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None: ...

class Adam(Optimizer):
    def __init__(
        self,
        params: _Parameters,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None: ...
