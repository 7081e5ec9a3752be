from collections.abc import Callable, Sequence
from typing import Any, Literal

def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[Literal["fwd", "rev"]] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    *,
    enter: str | tuple[str, ...] | None = None,
) -> None: ...
