from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import ArrayLike

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

# Results are nested in tuples where inputs or outputs are tuples.
_Strategy = Literal["forward-mode", "reverse-mode"]

def vjp(
    func: Callable[..., Any],
    inputs: ArrayLike | tuple[ArrayLike, ...],
    v: ArrayLike | tuple[ArrayLike, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def jvp(
    func: Callable[..., Any],
    inputs: ArrayLike | tuple[ArrayLike, ...],
    v: ArrayLike | tuple[ArrayLike, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def vhp(
    func: Callable[..., Any],
    inputs: ArrayLike | tuple[ArrayLike, ...],
    v: ArrayLike | tuple[ArrayLike, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def hvp(
    func: Callable[..., Any],
    inputs: ArrayLike | tuple[ArrayLike, ...],
    v: ArrayLike | tuple[ArrayLike, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def jacobian(
    func: Callable[..., Any],
    inputs: ArrayLike | tuple[ArrayLike, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: _Strategy = "reverse-mode",
) -> Any: ...
def hessian(
    func: Callable[..., Any],
    inputs: ArrayLike | tuple[ArrayLike, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: _Strategy = "reverse-mode",
) -> Any: ...
