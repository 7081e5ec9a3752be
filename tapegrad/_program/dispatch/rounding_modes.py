"""Rounding in other directions: how far a result depends on the last places inside.

The slope of tanh at 13 is 1 - tanh² = 2e-11. If tanh changes in its last place, as it does between
libraries, the slope changes by 1e-5 of itself. Arguments that are moved by some units in the last
place do not show that, since tanh stays the same. It changes if all operations round up, or all
round down; places in which the results differ then are not known [1]_.

The direction is that of a thread. Only machine code of ours is to run meanwhile. libmvec is made
for the nearest number: in other directions some of its functions err by more (arctan by 10%).

.. [1] J. Vignes, "Discrete stochastic arithmetic for validating results of numerical software",
   Numerical Algorithms 37 (2004), 377-390.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from typing import Any

#: FE_DOWNWARD and FE_UPWARD of the C library, by the machine.
_BY_MACHINE = {
    "x86_64": (0x400, 0x800),
    "aarch64": (0x800000, 0x400000),
    "arm64": (0x800000, 0x400000),
}


def _of_c() -> tuple[Callable[[], int], Callable[[int], int]] | None:
    """`fegetround` and `fesetround`; None if the process has none, as under Windows."""
    try:
        library = ctypes.PyDLL(None)
        return library.fegetround, library.fesetround
    except (OSError, TypeError, AttributeError):
        return None


_C = _of_c()
#: The directions other than to the nearest number; none where they cannot be set.
DIRECTIONS = _BY_MACHINE.get(platform.machine(), ()) if _C else ()


def rounded(direction: int, compute: Callable[[], Any]) -> Any:
    """What a function gives if this thread rounds in one of `DIRECTIONS`.

    A context manager would leave the direction as it is if an interrupt met its `__exit__`.
    """
    assert _C is not None
    current, change = _C
    before = current()
    try:
        change(direction)
        return compute()
    finally:
        change(before)
