"""Exceptions that end the reading of a function, or restart it."""

from __future__ import annotations

from ..ir.flow_graph import Line


class Refused(Exception):
    """A function has no graph, for this reason, found at a line if it is known."""

    line: Line | None = None
    dependencies: list | None = None  # what was read before, if reading can be repeated
    #: The branch at which calls take one path each, once that is known, shared by equal refusals.
    paths: list[str] | None = None

    def __str__(self) -> str:
        return super().__str__() + (f" ({self.line})" if self.line else "")


class Unread(Refused):
    """Functions are not read here at all."""


class Lost(Refused):
    """A derivative would be lost, whatever the lengths of the arguments are."""


class ReadsChanges(Refused):
    """A result depends on something outside that the function itself changes."""


class Leaves(Exception):
    """A call leaves the graph here, for this reason."""


class Raises(Leaves):
    """Python raises here: the call leaves the graph."""

    def __str__(self) -> str:
        return f"the function raises {super().__str__()}"


class Again(Exception):
    """Reading must restart: lists made at these sites lie in the arena.

    `element` is the form of their elements, None if that is not known yet; `why` is the reason to
    refuse if they lie there already, or are no lists.
    """

    def __init__(self, sites, element, why="its lists hold items of kinds that do not fit"):
        super().__init__(why)
        self.sites, self.element, self.why = sites, element, why


class Outdated(Exception):
    """Something was read as a value that the function is found to change: it is read once more."""
