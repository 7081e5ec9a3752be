from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np
from _typeshed import DataclassInstance
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Self, TypeVarTuple, Unpack

from . import _functions
from . import autograd as autograd
from . import math as math
from . import nn as nn
from . import numpy as numpy
from . import optim as optim
from . import scipy as scipy
from . import testing as testing
from ._core.config import config
from ._core.tape.tape import Tape as Tape
from ._core.tensor.pytree import stop_gradient
from ._core.tensor.tensor_classes import ComplexTensor as ComplexTensor
from ._core.tensor.tensor_classes import Tensor as Tensor
from ._core.tensor.trace import DerivativeLost
from ._custom.custom_vjp import CustomVjp
from ._custom.elementwise import ElementwiseOperation
from ._functions import *
from ._program.reports.reported import ProgramProfile
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import is_grad_enabled as is_grad_enabled
from .autograd import is_inference_mode_enabled as is_inference_mode_enabled
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled
from .nn.functional._layer_functions import manual_seed as manual_seed
from .testing import check_grads as check_grads

__version__: str
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
]
__all__ += _functions.__all__

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_Aux = TypeVar("_Aux")
_Out = TypeVar("_Out")
_Ts = TypeVarTuple("_Ts")
#: The argument that is differentiated: its gradient has its structure. Bound by Any, so that the
#: arguments of a lambda, of which nothing is known, may be used in any way.
_X = TypeVar("_X", bound=Any)
#: Arguments and results that are numbers, and what is known of those that are arrays. An array is
#: one with axes: where it has none, derivatives are numbers.
_Number = TypeVar("_Number", bound=float | np.floating[Any])
_ResultNumber = TypeVar("_ResultNumber", bound=float | np.floating[Any])
_Shape = TypeVar("_Shape", bound=tuple[Any, ...])
_ResultShape = TypeVar("_ResultShape", bound=tuple[Any, ...])
_DType = TypeVar("_DType", bound=np.inexact[Any])
_Real = TypeVar("_Real", bound=np.floating[Any] | np.integer[Any] | np.bool)
#: Results of one element of a batch: a number, an element of an array, several in a tuple.
_Plain = TypeVar("_Plain", bound=complex)
_Element = TypeVar("_Element", bound=np.generic)
_Leaves = TypeVar("_Leaves", bound=tuple[complex | np.generic | NDArray[Any], ...])
_Unstructured = TypeVar("_Unstructured", bound=_Flat)
_Gradient = TypeVar("_Gradient", covariant=True)
_Result = TypeVar("_Result", covariant=True)

_Array: TypeAlias = np.ndarray[_Shape, np.dtype[_Element]]
#: What a function that is differentiated returns.
_Scalar: TypeAlias = float | np.floating[Any] | NDArray[Any] | Tensor
#: What a function with a Jacobian returns. Its Jacobian by several arguments is a tuple, or a
#: structure of tuples.
_Flat: TypeAlias = ArrayLike | Tensor | ComplexTensor | Sequence[Any]
_Structure: TypeAlias = Mapping[Any, Any] | DataclassInstance | _AttrsInstance
#: Results for which the types of derivatives are not known.
_Untyped: TypeAlias = _Unknown | tuple[_Unknown, Any] | _NamedTuple
#: The option `enter`: packages that are entered beside others, () for none.
_Enter: TypeAlias = str | Sequence[str] | None
_Several: TypeAlias = Sequence[int]
_InAxes: TypeAlias = int | Sequence[Any] | None
_OutAxes: TypeAlias = int | Sequence[Any] | dict[Any, Any]
#: Of compiled functions, whose arguments are no structures there.
_RowAxes: TypeAlias = int | Sequence[int | None]
_Path: TypeAlias = str | PathLike[str]

class _AttrsInstance(Protocol):
    __attrs_attrs__: ClassVar[Any]

class _NamedTuple(Protocol):
    def _asdict(self) -> dict[str, Any]: ...

class _Unknown:
    """No type but Any is one: arguments and results without a type are told from others."""

class _Unknowable(_Unknown):
    """What the second overload below takes."""

class _WithoutTypes(Protocol[_Result]):
    """A function whose first argument has no type.

    It has overloads for pyright, which else takes the argument of a lambda for `_Unknown`.
    """

    @overload
    def __call__(self, x: _Unknowable, /, *args: Any, **kwargs: Any) -> _Result | _Unknown: ...
    @overload
    def __call__(self, x: _Unknown, /, *args: Any, **kwargs: Any) -> _Result | _Unknown: ...

class _Function(Generic[_P, _Result]):
    """The derivative of a function for which no type is given.

    It is a class for mypy: if several overloads fit, it takes the result for Any only where not all
    are a `Callable`, else for a function without types, and `--strict` refuses to call that.
    """

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Result: ...

# --- transforms ---------------------------------------------------------------------------------

@overload
def grad(
    f: np.ufunc,
    argnums: int | _Several = 0,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: bool = False,
    enter: _Enter = None,
) -> Callable[..., Any]: ...
@overload
def grad(
    f: Callable[Concatenate[_X, _P], _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], _X]: ...
@overload
def grad(
    f: Callable[_P, _Scalar],
    argnums: int,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def grad(
    f: Callable[_P, _Scalar],
    argnums: _Several,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[_P, _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: str,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def grad(
    f: Callable[_P, _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: Sequence[str],
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[Concatenate[_X, _P], tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], tuple[_X, _Aux]]: ...
@overload
def grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    argnums: int,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, _Aux]]: ...
@overload
def grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    argnums: _Several,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[Any, ...], _Aux]]: ...
@overload
def grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: str,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, _Aux]]: ...
@overload
def grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: Sequence[str],
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[Any, ...], _Aux]]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: int | _Several = 0,
    has_aux: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
    holomorphic: bool,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def value_and_grad(
    f: np.ufunc,
    argnums: int | _Several = 0,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: bool = False,
    enter: _Enter = None,
) -> Callable[..., tuple[Any, Any]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_X, _P], _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], tuple[float, _X]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _Scalar],
    argnums: int,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[float, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _Scalar],
    argnums: _Several,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[float, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: str,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[float, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: Sequence[str],
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[float, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_X, _P], tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], tuple[tuple[float, _Aux], _X]]: ...
@overload
def value_and_grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    argnums: int,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[float, _Aux], Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    argnums: _Several,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[float, _Aux], tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: str,
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[float, _Aux], Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: Sequence[str],
    holomorphic: Literal[False] = False,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[float, _Aux], tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[_P, Any],
    argnums: int | _Several = 0,
    has_aux: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
    holomorphic: bool,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def elementwise_grad(
    f: np.ufunc, argnums: int | _Several = 0, *, argnames: None = None, enter: _Enter = None
) -> Callable[..., Any]: ...
@overload
def elementwise_grad(
    f: Callable[Concatenate[_X, _P], Any],
    argnums: Literal[0] = 0,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], _X]: ...
@overload
def elementwise_grad(
    f: Callable[_P, Any], argnums: int, *, argnames: None = None, enter: _Enter = None
) -> Callable[_P, Any]: ...
@overload
def elementwise_grad(
    f: Callable[_P, Any], argnums: _Several, *, argnames: None = None, enter: _Enter = None
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def elementwise_grad(
    f: Callable[_P, Any], argnums: Literal[0] = 0, *, argnames: str, enter: _Enter = None
) -> Callable[_P, Any]: ...
@overload
def elementwise_grad(
    f: Callable[_P, Any], argnums: Literal[0] = 0, *, argnames: Sequence[str], enter: _Enter = None
) -> Callable[_P, tuple[Any, ...]]: ...

# Functions without types come first, since pyright takes the first overload that fits.
@overload
def hessian(
    f: np.ufunc,
    argnums: int | _Several = 0,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[..., Any]: ...
@overload
def hessian(
    f: Callable[Concatenate[_X, _P], _Untyped],
    *,
    has_aux: bool = False,
    argnames: None = None,
    enter: _Enter = None,
) -> _Function[..., Any]: ...
@overload
def hessian(
    f: _WithoutTypes[_Scalar | tuple[_Scalar, Any]],
    *,
    has_aux: bool = False,
    argnames: None = None,
    enter: _Enter = None,
) -> _Function[..., Any]: ...
@overload
def hessian(
    f: Callable[Concatenate[_Number, _P], _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Number, _P], float]: ...
@overload
def hessian(
    f: Callable[Concatenate[_Array[_Shape, _DType], _P], _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Array[_Shape, _DType], _P], NDArray[_DType]]: ...
@overload
def hessian(
    f: Callable[Concatenate[_X, _P], _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> _Function[Concatenate[_X, _P], Any]: ...
@overload
def hessian(
    f: Callable[_P, _Scalar],
    argnums: int,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def hessian(
    f: Callable[_P, _Scalar],
    argnums: _Several,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def hessian(
    f: Callable[_P, _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: str,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def hessian(
    f: Callable[_P, _Scalar],
    has_aux: Literal[False] = False,
    *,
    argnames: Sequence[str],
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def hessian(
    f: Callable[Concatenate[_Number, _P], tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Number, _P], tuple[float, _Aux]]: ...
@overload
def hessian(
    f: Callable[Concatenate[_Array[_Shape, _DType], _P], tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Array[_Shape, _DType], _P], tuple[NDArray[_DType], _Aux]]: ...
@overload
def hessian(
    f: Callable[Concatenate[_X, _P], tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> _Function[Concatenate[_X, _P], tuple[Any, _Aux]]: ...
@overload
def hessian(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    argnums: int,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, _Aux]]: ...
@overload
def hessian(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    argnums: _Several,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[Any, ...], _Aux]]: ...
@overload
def hessian(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: str,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, _Aux]]: ...
@overload
def hessian(
    f: Callable[_P, tuple[_Scalar, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: Sequence[str],
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[Any, ...], _Aux]]: ...
@overload
def jacobian(
    f: np.ufunc,
    argnums: int | _Several = 0,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[..., Any]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_X, _P], _Untyped],
    argnums: int | _Several = 0,
    has_aux: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
    enter: _Enter = None,
) -> _Function[..., Any]: ...
@overload
def jacobian(
    f: _WithoutTypes[_Flat | _Structure],
    argnums: int | _Several = 0,
    has_aux: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
    enter: _Enter = None,
) -> _Function[..., Any]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_Number, _P], _ResultNumber],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Number, _P], float]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_X, _P], _ResultNumber],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], _X]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_Array[_Shape, _DType], _P], _Array[_ResultShape, _Real]],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Array[_Shape, _DType], _P], NDArray[_DType]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_Number, _P], _Array[_ResultShape, _Real]],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Number, _P], NDArray[np.float64]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_X, _P], _Unstructured],
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> _Function[Concatenate[_X, _P], Any]: ...
@overload
def jacobian(
    f: Callable[_P, _Unstructured],
    argnums: int,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def jacobian(
    f: Callable[_P, _Unstructured],
    argnums: _Several,
    has_aux: Literal[False] = False,
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def jacobian(
    f: Callable[_P, _Unstructured],
    has_aux: Literal[False] = False,
    *,
    argnames: str,
    enter: _Enter = None,
) -> Callable[_P, Any]: ...
@overload
def jacobian(
    f: Callable[_P, _Unstructured],
    has_aux: Literal[False] = False,
    *,
    argnames: Sequence[str],
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def jacobian(
    f: Callable[_P, _Structure],
    argnums: int | _Several = 0,
    has_aux: Literal[False] = False,
    *,
    argnames: str | Sequence[str] | None = None,
    enter: _Enter = None,
) -> _Function[_P, Any]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_Number, _P], tuple[_ResultNumber, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Number, _P], tuple[float, _Aux]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_X, _P], tuple[_ResultNumber, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _P], tuple[_X, _Aux]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_Array[_Shape, _DType], _P], tuple[_Array[_ResultShape, _Real], _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Array[_Shape, _DType], _P], tuple[NDArray[_DType], _Aux]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_Number, _P], tuple[_Array[_ResultShape, _Real], _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[Concatenate[_Number, _P], tuple[NDArray[np.float64], _Aux]]: ...
@overload
def jacobian(
    f: Callable[Concatenate[_X, _P], tuple[_Unstructured, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: None = None,
    enter: _Enter = None,
) -> _Function[Concatenate[_X, _P], tuple[Any, _Aux]]: ...
@overload
def jacobian(
    f: Callable[_P, tuple[_Unstructured, _Aux]],
    argnums: int,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, _Aux]]: ...
@overload
def jacobian(
    f: Callable[_P, tuple[_Unstructured, _Aux]],
    argnums: _Several,
    has_aux: Literal[True],
    *,
    argnames: None = None,
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[Any, ...], _Aux]]: ...
@overload
def jacobian(
    f: Callable[_P, tuple[_Unstructured, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: str,
    enter: _Enter = None,
) -> Callable[_P, tuple[Any, _Aux]]: ...
@overload
def jacobian(
    f: Callable[_P, tuple[_Unstructured, _Aux]],
    *,
    has_aux: Literal[True],
    argnames: Sequence[str],
    enter: _Enter = None,
) -> Callable[_P, tuple[tuple[Any, ...], _Aux]]: ...
@overload
def jacobian(
    f: Callable[_P, tuple[_Structure, _Aux]],
    argnums: int | _Several = 0,
    *,
    has_aux: Literal[True],
    argnames: str | Sequence[str] | None = None,
    enter: _Enter = None,
) -> _Function[_P, tuple[Any, _Aux]]: ...
@overload
def hvp(
    f: Callable[Concatenate[_X, _P], _Scalar],
    has_aux: Literal[False] = False,
    *,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _X, _P], _X]: ...
@overload
def hvp(
    f: Callable[Concatenate[_X, _P], tuple[_Scalar, _Aux]],
    has_aux: Literal[True],
    *,
    enter: _Enter = None,
) -> Callable[Concatenate[_X, _X, _P], tuple[_X, _Aux]]: ...
@overload
def vjp(
    f: Callable[[Unpack[_Ts]], _R],
    *primals: Unpack[_Ts],
    has_aux: Literal[False] = False,
    enter: _Enter = None,
) -> tuple[_R, Callable[[_R], tuple[Unpack[_Ts]]]]: ...
@overload
def vjp(
    f: Callable[[Unpack[_Ts]], tuple[_R, _Aux]],
    *primals: Unpack[_Ts],
    has_aux: Literal[True],
    enter: _Enter = None,
) -> tuple[_R, Callable[[_R], tuple[Unpack[_Ts]]], _Aux]: ...
@overload
def jvp(
    f: Callable[[Unpack[_Ts]], _R],
    primals: tuple[Unpack[_Ts]],
    tangents: tuple[Unpack[_Ts]],
    *,
    enter: _Enter = None,
) -> tuple[_R, _R]: ...
@overload
def jvp(
    f: Callable[..., _R], primals: list[Any], tangents: Sequence[Any], *, enter: _Enter = None
) -> tuple[_R, _R]: ...

# The arguments are batches of those of `f`: an array in place of a number. So they have no types.
@overload
def vmap(
    f: Callable[Concatenate[_X, _P], _Untyped],
    in_axes: _InAxes = 0,
    out_axes: _OutAxes = 0,
    *,
    enter: _Enter = None,
) -> _Function[..., Any]: ...
@overload
def vmap(
    f: Callable[_P, _Element], in_axes: _InAxes = 0, out_axes: _OutAxes = 0, *, enter: _Enter = None
) -> Callable[..., NDArray[_Element]]: ...
@overload
def vmap(
    f: Callable[_P, _Plain], in_axes: _InAxes = 0, out_axes: _OutAxes = 0, *, enter: _Enter = None
) -> Callable[..., NDArray[Any]]: ...
@overload
def vmap(
    f: Callable[_P, _Array[_Shape, _Element]],
    in_axes: _InAxes = 0,
    out_axes: _OutAxes = 0,
    *,
    enter: _Enter = None,
) -> Callable[..., NDArray[_Element]]: ...
@overload
def vmap(
    f: Callable[_P, _Leaves], in_axes: _InAxes = 0, out_axes: _OutAxes = 0, *, enter: _Enter = None
) -> Callable[..., tuple[NDArray[Any], ...]]: ...
@overload
def vmap(
    f: Callable[_P, _Flat | _Structure],
    in_axes: _InAxes = 0,
    out_axes: _OutAxes = 0,
    *,
    enter: _Enter = None,
) -> _Function[..., Any]: ...
def checkpoint(f: Callable[_P, _R]) -> Callable[_P, _R]: ...
def record(f: Callable[_P, Any], *args: _P.args, **kwargs: _P.kwargs) -> Tape: ...

# --- operations of the user's ---------------------------------------------------------------------

def implicit(
    residual: Callable[..., Any],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def fixed_point(
    f: Callable[..., Any], x0: Any, *params: Any, tol: float = 1e-12, max_iterations: int = 1000
) -> Any: ...
def custom_vjp(forward: Callable[..., Any], backward: Callable[..., Any]) -> CustomVjp: ...
@overload
def elementwise(
    function: Callable[..., Any], *, partials: Sequence[Callable[..., Any]] | None = None
) -> ElementwiseOperation: ...
@overload
def elementwise(
    function: None = None, *, partials: Sequence[Callable[..., Any]] | None = None
) -> Callable[[Callable[..., Any]], ElementwiseOperation]: ...

# --- compiled functions --------------------------------------------------------------------------

_OnBranch: TypeAlias = Literal["record", "error"]
_Verify: TypeAlias = Literal["once", "always", "never"]
_Memory: TypeAlias = Literal["all", "sqrt"]

class _ByFirst(Protocol):
    def __call__(
        self, f: Callable[Concatenate[_X, _P], _R], /
    ) -> Compiled[Concatenate[_X, _P], _R, _X]: ...

class _CompiledMethod(Protocol[_P, _Result]):
    """A compiled method of an instance."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Result: ...
    def value_and_grad(self, *args: _P.args, **kwargs: _P.kwargs) -> tuple[float, Any]: ...
    def grad(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def jacobian(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def hessian(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def hvp(self, x: Any, v: Any, *others: Any) -> Any: ...
    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]: ...
    def vjp(self, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]: ...
    def map(
        self,
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: bool = True,
        threads: int | None = None,
    ) -> Any: ...
    def sum(
        self,
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: bool = True,
        threads: int | None = None,
    ) -> Any: ...
    def wait(self) -> None: ...
    def explain(self) -> str: ...
    def clear(self) -> None: ...

class _CompiledByName(Protocol[_P, _Result]):
    """A compiled function whose differentiated arguments are named."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Result: ...
    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(
        self: _CompiledByName[Concatenate[Any, _Q], _Result],
        instance: object,
        owner: type[Any] | None = None,
    ) -> _CompiledByName[_Q, _Result]: ...
    def value_and_grad(self, *args: _P.args, **kwargs: _P.kwargs) -> tuple[float, Any]: ...
    def grad(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def jacobian(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def hessian(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def hvp(self, v: Any, *args: Any, **kwargs: Any) -> Any: ...
    def jvp(self, tangents: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]: ...
    def vjp(self, *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]: ...
    def map(
        self,
        *args: Any,
        in_axes: Any = 0,
        gradient: bool = True,
        threads: int | None = None,
        **kwargs: Any,
    ) -> Any: ...
    def sum(
        self,
        *args: Any,
        in_axes: Any = 0,
        gradient: bool = True,
        threads: int | None = None,
        **kwargs: Any,
    ) -> Any: ...
    def wait(self) -> None: ...
    def explain(self) -> str: ...
    def draw(self, path: _Path | None = None) -> str: ...
    def clear(self) -> None: ...

class _Distributed(Protocol[_Gradient]):
    """The sum of a compiled function over partitions."""

    count: int
    def __call__(self, *args: Any) -> float: ...
    def value_and_grad(self, *args: Any) -> tuple[float, _Gradient]: ...
    def grad(self, *args: Any) -> _Gradient: ...
    def hessian(self, *args: Any) -> Any: ...
    def hvp(self, x: Any, v: Any, *others: Any) -> Any: ...
    def map(self, *args: Any, gradient: bool = True) -> Any: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: Any) -> None: ...

class Compiled(Generic[_P, _R, _Gradient]):
    __name__: str
    __qualname__: str
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(
        self: Compiled[Concatenate[Any, _Q], _R, Any],
        instance: object,
        owner: type[Any] | None = None,
    ) -> _CompiledMethod[_Q, _R]: ...
    @overload
    def value_and_grad(self, *args: _P.args, **kwargs: _P.kwargs) -> tuple[float, _Gradient]: ...
    @overload
    def value_and_grad(self, *args: Any, out: _Out, **kwargs: Any) -> tuple[float, _Out]: ...
    @overload
    def grad(self, *args: _P.args, **kwargs: _P.kwargs) -> _Gradient: ...
    @overload
    def grad(self, *args: Any, out: _Out, **kwargs: Any) -> _Out: ...
    @overload
    def jacobian(self: Compiled[_P, _Unknown, Any], *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    @overload
    def jacobian(
        self: Compiled[_P, _R, _Unknown | _NamedTuple], *args: _P.args, **kwargs: _P.kwargs
    ) -> Any: ...
    @overload
    def jacobian(
        self: Compiled[_P, _ResultNumber, _Number], *args: _P.args, **kwargs: _P.kwargs
    ) -> float: ...
    @overload
    def jacobian(
        self: Compiled[_P, _ResultNumber, _X], *args: _P.args, **kwargs: _P.kwargs
    ) -> _X: ...
    @overload
    def jacobian(
        self: Compiled[_P, _Array[_ResultShape, _Real], _Array[_Shape, _DType]],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> NDArray[_DType]: ...
    @overload
    def jacobian(
        self: Compiled[_P, _Array[_ResultShape, _Real], _Number],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> NDArray[np.float64]: ...
    @overload
    def jacobian(
        self: Compiled[_P, _Array[_ResultShape, _Real], tuple[Any, ...]],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> tuple[Any, ...]: ...
    @overload
    def jacobian(self: Compiled[_P, _R, Any], *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    @overload
    def hessian(
        self: Compiled[_P, _R, _Unknown | _NamedTuple], *args: _P.args, **kwargs: _P.kwargs
    ) -> Any: ...
    @overload
    def hessian(self: Compiled[_P, _R, _Number], *args: _P.args, **kwargs: _P.kwargs) -> float: ...
    @overload
    def hessian(
        self: Compiled[_P, _R, _Array[_Shape, _DType]], *args: _P.args, **kwargs: _P.kwargs
    ) -> NDArray[_DType]: ...
    @overload
    def hessian(
        self: Compiled[_P, _R, tuple[Any, ...]], *args: _P.args, **kwargs: _P.kwargs
    ) -> tuple[Any, ...]: ...
    @overload
    def hessian(self: Compiled[_P, _R, Any], *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def hvp(self: Compiled[Concatenate[_X, _Q], _R, Any], x: _X, v: _X, *others: Any) -> _X: ...
    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[_R, _R]: ...
    def vjp(self, *primals: Any) -> tuple[_R, Callable[[Any], tuple[Any, ...]]]: ...
    @overload
    def map(
        self: Compiled[_P, _R, _Unknown],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[NDArray[np.float64], Any]: ...
    @overload
    def map(
        self: Compiled[_P, _R, float | np.floating[Any] | NDArray[Any]],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    @overload
    def map(
        self: Compiled[_P, _R, tuple[Any, ...]],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]: ...
    @overload
    def map(
        self: Compiled[_P, _R, Any],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[NDArray[np.float64], Any]: ...
    @overload
    def map(
        self,
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[False],
        threads: int | None = None,
        over: Any = None,
    ) -> NDArray[np.float64]: ...
    @overload
    def sum(
        self: Compiled[_P, _R, _Unknown],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[float, Any]: ...
    @overload
    def sum(
        self: Compiled[_P, _R, NDArray[Any]],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[float, NDArray[np.float64]]: ...
    @overload
    def sum(
        self: Compiled[_P, _R, tuple[Any, ...]],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[float, tuple[Any, ...]]: ...
    @overload
    def sum(
        self: Compiled[_P, _R, Any],
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[True] = True,
        threads: int | None = None,
        over: Any = None,
    ) -> tuple[float, Any]: ...
    @overload
    def sum(
        self,
        *args: Any,
        in_axes: _RowAxes = 0,
        gradient: Literal[False],
        threads: int | None = None,
        over: Any = None,
    ) -> float: ...
    def distribute(
        self, partitions: Any, *, over: Any, native: bool | None = None
    ) -> _Distributed[_Gradient]: ...
    def numba(self, *args: Any) -> tuple[Callable[..., float], Callable[..., float]]: ...
    def nutpie_model(self, like: Any, *others: Any) -> Any: ...
    def wait(self) -> None: ...
    def save(self, path: _Path) -> None: ...
    def clear(self) -> None: ...
    def explain(self) -> str: ...
    def profile(self, *args: Any, repeats: int = 10) -> ProgramProfile: ...
    def draw(self, path: _Path | None = None) -> str: ...

@overload
def compile(
    f: Callable[Concatenate[_X, _P], _R],
    *,
    argnames: None = None,
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> Compiled[Concatenate[_X, _P], _R, _X]: ...
@overload
def compile(
    f: Callable[_P, _R],
    *,
    argnums: int,
    argnames: None = None,
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> Compiled[_P, _R, Any]: ...
@overload
def compile(
    f: Callable[_P, _R],
    *,
    argnums: _Several,
    argnames: None = None,
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> Compiled[_P, _R, tuple[Any, ...]]: ...
@overload
def compile(
    f: Callable[_P, _R],
    *,
    argnames: str | Sequence[str],
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> _CompiledByName[_P, _R]: ...
@overload
def compile(
    f: None = None,
    *,
    argnames: None = None,
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> _ByFirst: ...
@overload
def compile(
    f: None = None,
    *,
    argnums: int,
    argnames: None = None,
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> Callable[[Callable[_P, _R]], Compiled[_P, _R, Any]]: ...
@overload
def compile(
    f: None = None,
    *,
    argnums: _Several,
    argnames: None = None,
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> Callable[[Callable[_P, _R]], Compiled[_P, _R, tuple[Any, ...]]]: ...
@overload
def compile(
    f: None = None,
    *,
    argnames: str | Sequence[str],
    on_branch: _OnBranch = "record",
    verify: _Verify = "once",
    native: bool | None = None,
    memory: _Memory = "all",
    enter: _Enter = None,
) -> Callable[[Callable[_P, _R]], _CompiledByName[_P, _R]]: ...
def load(
    path: _Path, *, most_bytes: int = 4294967296, native: bool | None = None
) -> Compiled[..., Any, Any]: ...
@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, dict[str, Any]]: ...
