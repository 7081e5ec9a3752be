"""The table: what an operation is, and the list of all of them. It knows nothing of tapes."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

#: The operations of tapegrad, by name.
TABLE: dict[str, Any] = {}
#: Those of traces and programs alone: comparisons, logic and choices, by name.
STEERING: dict[str, Any] = {}
#: Those of programs alone on whole arrays, which passes put there, by name.
PASSED: dict[str, Any] = {}
#: Those that users have declared, by name. They come when compiled code runs already.
USERS: dict[str, Any] = {}
#: All of them by code, which counts from 1 and is never stored on disk.
BY_CODE: dict[int, Any] = {}
#: Tables by code are made for so many: they never move while a sweep reads them.
MOST_CODES = 4096


def words_of(*expressions: str) -> set[str]:
    """The names in expressions."""
    return set(re.findall(r"\b[A-Za-z_]\w*", " ".join(expressions)))


@dataclasses.dataclass(frozen=True)
class Pointwise:
    """An element-wise operation: one expression for the value, one for the slope of each input.

    The expressions are in NumPy names of the inputs and `out`, branch-free, with `select`; they are
    compiled, evaluated by NumPy, and called with tensors to record derivatives of any order. What
    they share is in `steps`: names with an expression each, which may read the steps before it.
    """

    name: str
    inputs: tuple[str, ...]
    value: str
    slopes: tuple[str, ...]
    doc: str
    domain: tuple[tuple[float, float], ...]
    awkward: str
    numpy: str
    code: int
    steps: tuple[tuple[str, str], ...] = ()

    def needed(self, *expressions: str) -> list[tuple[str, str]]:
        """The steps that expressions read, in order."""
        wanted, found = words_of(*expressions), []
        for name, text in reversed(self.steps):
            if name in wanted:
                found.append((name, text))
                wanted |= words_of(text)
        return found[::-1]

    @functools.cached_property
    def used(self) -> int:
        """Bits of the values that the slopes read: inputs in order, then the output."""
        read = words_of(*self.slopes, *[text for _, text in self.needed(*self.slopes)])
        return sum(1 << k for k, name in enumerate((*self.inputs, "out")) if name in read)


@dataclasses.dataclass(frozen=True)
class Structural:
    """An operation on whole arrays: a compiled adjoint that reads the row's references.

    `adjoint(frame, id, references, task)` and its `helpers` are Python functions in the language of
    kernels. So is `forward`, with the same arguments: it writes the output, an array of doubles,
    from the operands, for programs; there is none where programs have steps of their own. Of what
    has no derivative there is no `adjoint`, and there are no rows. `form`
    names what operands it trusts to be given: programs from files are checked for that.
    `refusal` words what an adjoint says that has set the frame's status to REFUSED.
    `example` is an expression that records one such row of a tensor `x` with one axis.
    """

    name: str
    doc: str
    example: str
    awkward: str
    adjoint: Callable | None
    helpers: tuple[Callable, ...]
    forward: Callable | None
    form: str
    writes: bool
    code: int
    refusal: Callable[[int], Exception] | None = None


def pointwise(name, inputs, value, *slopes, doc, domain=None, awkward="", numpy=None, table=TABLE):
    """Declare an element-wise operation; `domain`, for the tests, is one (low, high) per input."""
    names = tuple(inputs.split())
    if len(slopes) != len(names):
        raise ValueError(f"{name}: {len(names)} inputs, {len(slopes)} slopes")
    if isinstance(domain, tuple) and not isinstance(domain[0], tuple):
        domain = (domain,) * len(names)
    domain = domain or ((-2.0, 2.0),) * len(names)
    numpy = numpy or f"numpy.{name}"
    code = len(BY_CODE) + 1
    op = Pointwise(name, names, value, slopes, doc, domain, awkward, numpy, code)
    table[name] = BY_CODE[code] = op


def structural(
    name,
    adjoint,
    *,
    doc,
    example="",
    helpers=(),
    forward=None,
    form="",
    awkward="",
    writes=False,
    table=TABLE,
):
    """Declare an operation on whole arrays; one with a `forward` has a `form`.

    One that `writes` changes the buffer of its first operand and has no result.
    """
    code = len(BY_CODE) + 1
    op = Structural(name, doc, example, awkward, adjoint, helpers, forward, form, writes, code)
    table[name] = BY_CODE[code] = op


def users_name(wanted: str) -> str:
    """A name for an operation of a user's: the one wanted, with a number where it is taken."""
    name, count = wanted, 1
    while name in TABLE or name in STEERING or name in USERS:
        count += 1
        name = f"{wanted}_{count}"
    return name


def declare(make: Callable[[int], Any]) -> Any:
    """Add the operation that `make(code)` gives to those of users; None if there is no room."""
    code = len(BY_CODE) + 1
    if code >= MOST_CODES:
        return None
    op = make(code)
    USERS[op.name] = BY_CODE[code] = op
    return op


def find(name: str) -> Any:
    """The operation of a name, None if there is none."""
    return TABLE.get(name) or STEERING.get(name) or USERS.get(name)
