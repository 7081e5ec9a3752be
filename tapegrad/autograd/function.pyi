from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

class Function:
    #: Static methods of classes take a context first, and what they like.
    forward: Callable[..., Any]
    setup_context: Callable[..., Any]
    backward: Callable[..., Any]
    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any: ...

def once_differentiable(backward: _F) -> _F: ...
