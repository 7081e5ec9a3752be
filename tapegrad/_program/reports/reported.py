"""Reports of a compiled function on its programs: text, a picture, times."""

from __future__ import annotations

import contextlib

from ..._core.tape.tape import saved
from ..._core.tensor.values import records
from ..dispatch.evaluation import Compilation, Replayed
from ..dispatch.signature import Arguments
from .draw import drawing_of_graph, drawing_of_program
from .explain import explain
from .step_times import ProgramProfile, profile, profile_graph


class Reported(Replayed):
    """A function with its programs, and reports on them."""

    def _compilation(self) -> Compilation:
        raise NotImplementedError

    def explain(self) -> str:
        """Describe what became of the function.

        Returns
        -------
        str
            Rows, passes, steps, guards, memory and times of each program, or the reason why the
            function runs eagerly.

        Examples
        --------
        >>> import tapegrad as tg
        >>> f = tg.compile(lambda x: x * x)
        >>> _ = f.grad(3.0)
        >>> text = f.explain()
        """
        return explain(self._compilation())

    def profile(self, *args, repeats=10) -> ProgramProfile:
        """Measure the time of the program for such arguments, by step and source line.

        Each step is timed, forward and reverse. The function is called once more to find the lines
        of its operations; the time of a step is divided evenly among its operations. Of a graph the
        whole call is timed, and divided by how often each block runs and what its operations are
        estimated to cost.

        Parameters
        ----------
        *args
            Arguments as for a call.
        repeats : int, optional
            Number of evaluations that are timed; the best time of each step counts.

        Returns
        -------
        ProgramProfile
            With `steps`, `lines`, `forward` and `reverse`; `print` shows tables.

        Raises
        ------
        ValueError
            If the function runs without a program, or `repeats` is less than 1.
        TypeError
            If an argument is a recorded tensor.
        """
        if repeats < 1:
            raise ValueError(f"tapegrad.compile: repeats is {repeats}; it must be positive")
        if records(*args):
            raise TypeError("tapegrad.compile: profile takes plain arguments, no recorded tensors")
        arguments = Arguments(args, {}, self._argnums)
        flow = self._flow_for(arguments)
        if flow is not None:
            with contextlib.suppress(ValueError):  # a call that leaves it has a program of its own
                return profile_graph(flow, self._name, arguments.values, repeats)
        return profile(self._program_for(arguments), self._name, self._f, arguments, repeats)

    def draw(self, path=None) -> str:
        """Draw the program that was used last.

        Parameters
        ----------
        path : str or path-like, optional
            A file to which the picture is written, too.

        Returns
        -------
        str
            The picture as SVG text: steps with what flows between them; fused groups and loops are
            marked. Loops and branches of a graph are boxes in one another, with your lines.

        Raises
        ------
        ValueError
            If there is no program yet.
        """
        for flow in list(self._flows.found.values())[-1:]:
            graph = flow.primal
            return saved(drawing_of_graph(graph.program.graph, graph.seen, self._name), path)
        self._compilation()
        found = [family.found[0] for family in list(self._families.found.values()) if family.found]
        if not found:
            raise ValueError(f"tapegrad.compile: {self._name} has no program yet; call it first")
        return saved(drawing_of_program(found[-1].program, self._name), path)
