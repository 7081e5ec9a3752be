"""Recordings that are no programs yet: a graph is looked for first, or a path must come again."""

from __future__ import annotations

from collections.abc import Callable

from ..._core.tensor.trace import Guard
from .signature import Arguments
from .variants import Traced, Variants
from .verification import Verified


class PutOff(Verified):
    """A function of whose recordings some become programs later, or never."""

    _by_flow: Callable
    _convert: Callable
    _evaluate: Callable
    _flow_for: Callable

    def _without_program(self, family: Variants, arguments: Arguments, args, kwargs, gradient):
        """The result by a graph made now, or of an eager call where no path is known to come again.

        None where the call is to be recorded, or a program has been made.
        """
        if family.branching is not None:
            if (found := self._by_new_flow(family, arguments, args, kwargs, gradient)) is not None:
                return found
        if family.found or not self._flows.is_without_program(self, family):
            return None
        if not family.budget.has_called:
            arguments.keep()
            family.first = arguments
        with family.budget.calling():
            return self._eagerly(args, kwargs, gradient)

    def _by_new_flow(self, family: Variants, arguments: Arguments, args, kwargs, gradient: bool):
        """Value and gradient by a graph, made in place of the program of the last recording.

        None where it has none: then this program is made.
        """
        traced, guard, family.branching = family.pending, family.branching, None
        if traced is None or guard is None:
            return None
        with family.budget.making():
            is_there = self._flows.asked(self, arguments, str(guard))
        if not is_there and not self._flows.is_lost:  # it is not to have one
            self._convert(family)
            return None
        family.pending, family.spare = None, traced
        left = self._leaves_new_flow(arguments, traced) if is_there else ""
        if is_there and (found := self._by_flow(arguments, args, kwargs, gradient)) is not None:
            family.spare = None
            return found
        if left:  # as this one has
            self._flows.drop_last(self, left)
        if self._flows.is_lost:
            family.lost = str(guard)
            self._flows.note_loss(self, arguments, family.lost)
            family.budget.comes_again(traced.trace.guards)
        return None

    def _leaves_new_flow(self, arguments: Arguments, traced: Traced) -> str:
        """Why the recorded call leaves the graph that was made since; else they are compared."""
        flow = self._flow_for(arguments)
        if flow is None or not traced.names.unchanged():
            return ""
        left = flow.compare(traced.values, traced.result)
        flow.reading.shared.is_first = not left
        return left

    def _put_off(
        self, family: Variants, arguments: Arguments, traced: Traced
    ) -> tuple[bool, Guard | None]:
        """Whether a recording is no program yet, and the branch for which a graph is looked for.

        A graph may serve, or no other call go this way. Then a path becomes a program when it comes
        the second time.
        """
        if traced.trace.refusal is not None or self._flows.is_aside:
            return False, None
        if not family.lost:
            guard = self._flows.first_for(self, arguments, traced)
            if guard is None or not self._flows.is_refused(arguments):
                return guard is not None, guard
            family.lost = str(guard)
        if not family.budget.is_worth(traced.trace.guards, traced.rows, family.evaluations):
            family.spare = traced
        return family.spare is traced, None

    def _settle(self, family: Variants) -> None:
        """Make a program where one is asked for, of the last recording if there is none."""
        if family.pending is None and not family.found:
            family.pending = family.spare
            if family.spare is None and family.first is not None:
                with self._flows.aside():
                    call = lambda *args, **kwargs: self._evaluate(args, kwargs, False)  # noqa: E731
                    family.first.call(call, family.first.values)
        family.spare = family.first = None
        self._convert(family)
