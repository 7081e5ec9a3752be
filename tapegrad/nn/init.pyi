from typing import Literal, TypeVar

import numpy as np

from .._core.tensor.tensor_classes import Tensor

_T = TypeVar("_T", bound=Tensor)
_Fan = Literal["fan_in", "fan_out"]

def calculate_gain(nonlinearity: str, param: float | None = None) -> float: ...
def fans(tensor: Tensor) -> tuple[int, int]: ...
def constant_(tensor: _T, val: float) -> _T: ...
def ones_(tensor: _T) -> _T: ...
def zeros_(tensor: _T) -> _T: ...
def uniform_(
    tensor: _T, a: float = 0.0, b: float = 1.0, generator: np.random.Generator | None = None
) -> _T: ...
def normal_(
    tensor: _T, mean: float = 0.0, std: float = 1.0, generator: np.random.Generator | None = None
) -> _T: ...
def xavier_uniform_(
    tensor: _T, gain: float = 1.0, generator: np.random.Generator | None = None
) -> _T: ...
def xavier_normal_(
    tensor: _T, gain: float = 1.0, generator: np.random.Generator | None = None
) -> _T: ...
def kaiming_uniform_(
    tensor: _T,
    a: float = 0.0,
    mode: _Fan = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> _T: ...
def kaiming_normal_(
    tensor: _T,
    a: float = 0.0,
    mode: _Fan = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> _T: ...
