"""`tg.load`: compiled functions from files, without the functions they were recorded from."""

from __future__ import annotations

import copy
import io

from .._core.tensor import runtime as rt
from .compiled import Compiled
from .composition import plain_argnums
from .dispatch.evaluation import NO_NUMBER, Compilation
from .files import file_format


def load(path, *, most_bytes=file_format.MOST_BYTES, native=None):
    """Load a compiled function from a file that `save` of a compiled function wrote.

    Parameters
    ----------
    path : str or path-like
        A regular file.
    most_bytes : int, optional
        The largest size in bytes of the file, and of the memory that a program in it, or a call of
        a graph, may need.
    native : bool or None, optional
        As in `tg.compile`. A file holds no machine code; graphs of files stay interpreted.

    Returns
    -------
    Compiled
        A function with the methods of the function that was saved. Nothing is recorded again: the
        function itself is not in the file.

    Raises
    ------
    ValueError
        If it is no regular file, if it is damaged or malicious, or if it or a program in it needs
        more than `most_bytes`. Everything in the file is checked before any of it runs.
    OSError
        If the file cannot be read.
    RuntimeError
        When the loaded function is called with arguments, or takes a branch, for which the file has
        neither a program nor a graph, or leaves its graph.

    Examples
    --------
    >>> import os, tempfile
    >>> import tapegrad as tg
    >>> compiled = tg.compile(lambda x: x**3 + 2.0 * x)
    >>> compiled.value_and_grad(2.0)
    (12.0, 14.0)
    >>> path = os.path.join(tempfile.mkdtemp(), "cubic.npz")
    >>> compiled.save(path)
    >>> tg.load(path).value_and_grad(3.0)
    (33.0, 29.0)
    """
    rt.start()  # programs read the recorder's state, also where no tensor is ever made
    try:
        found = file_format.load(path, most_bytes)
    except OSError:
        raise
    except Exception as error:  # of any kind: the file may hold anything
        raise ValueError(f"tapegrad.load: {path}: {error}") from error
    return Loaded(found, native)


def _restored(content: bytes, native) -> Loaded:
    rt.start()
    return Loaded(file_format.load(content), native)


class Loaded(Compiled):
    """A compiled function from a file; made by `tg.load`, see there."""

    def __init__(self, found: Compilation, native):
        def absent(*args, **kwargs):
            raise AssertionError(found.name)

        absent.__name__ = absent.__qualname__ = found.name
        argnums = found.argnums[0] if found.single else found.argnums
        settings = dict(on_branch="error", verify="never", native=native, memory="all")
        super().__init__(absent, found.kind, argnums, **settings)
        self._compares = True  # that needs no function
        self._families.install(found.families, None)
        self._families.most = len(found.families) + 1  # and one without a program
        self._flows.found = {flow.key: flow for flow in found.graphs}
        every = [found, *found.derived.values()]
        self._flows.branches = any(one.graphs for one in every)
        self._derived = {name: Loaded(one, native) for name, one in found.derived.items()}
        if native:
            for family in found.families.values():
                for variant in family.found:
                    self._make_native(variant, None)

    def __reduce__(self):
        stream = io.BytesIO()
        file_format.save(stream, self._compilation())
        return _restored, (stream.getvalue(), self._native)

    def __copy__(self):
        return Loaded(self._compilation(), self._native)

    def __deepcopy__(self, memo):
        return copy.copy(self)

    def _pinned(self, on_branch, native):
        made = Loaded(self._compilation(), native and on_branch is not None)
        made._native = native
        return made

    def clear(self) -> None:
        raise RuntimeError(
            f"tapegrad.load: {self._name} was loaded without its function: nothing would be left"
        )

    def _made(self, name, make):
        if name not in self._derived:
            what = "its graph does not give it for this call" if self._flows.found else ""
            raise RuntimeError(
                f"tapegrad.load: {self._name} has no {name} in its file"
                f"{what and f', and {what}'}; call it before it is saved"
            )
        return self._derived[name]

    def _for_graph(self, argnums):
        numbers = self._argnums if argnums is None else plain_argnums(argnums)
        found = self._derived.get(f"argnums={numbers}")
        if argnums is None or numbers == self._asked() or found is not None:
            return found or self
        if self._argnums != (numbers if isinstance(numbers, tuple) else (numbers,)):
            return None
        own = self._compilation()  # in a tuple, or not: the graphs are the same
        single = isinstance(numbers, int)
        alike = Compilation(own.name, own.kind, self._argnums, single, {}, {}, graphs=own.graphs)
        return Loaded(alike, self._native)

    def _on_another_way(self, family, arguments, stopped, call):
        flow = self._flow_for(arguments)
        if not family.found:
            self._families.found.pop(arguments.key, None)
        if isinstance(stopped, Exception):
            raise stopped
        if flow is not None:
            self._leave(flow, arguments, call)
        if stopped is None:
            self._record(family, arguments, call)
        raise RuntimeError(
            f"tapegrad.load: with these values {self._name} takes another branch at {stopped} than "
            "its programs in the file; call it with such values before it is saved"
        )

    def _leave(self, flow, arguments, call) -> None:
        """Say why a call has left its graph."""
        if call.gradient and not flow.is_number:
            raise ValueError(NO_NUMBER)
        try:
            flow.again(arguments.values, call.gradient)
        except ValueError as error:
            raise RuntimeError(
                f"tapegrad.load: with these values {self._name} leaves its graph, and its file has "
                f"no function to call: {error}"
            ) from None

    def _record(self, family, arguments, call):
        why = "; pass copies of what is passed more than once" if arguments.same else ""
        why += "; pass keyword arguments in the same order" if len(call.kwargs) > 1 else ""
        raise RuntimeError(
            f"tapegrad.load: {self._name} has no program in its file for arguments like these; "
            f"call it with such arguments before it is saved{why}"
        )

    def _is_observed(self) -> bool:
        return False

    def _eagerly(self, args, kwargs, gradient):
        raise RuntimeError(
            f"tapegrad.load: {self._name} was loaded without its function and takes plain floats "
            "and arrays of float64 and integers, no recorded tensors"
        )

    def _give_up(self, reason):
        raise RuntimeError(f"tapegrad.load: {self._name} cannot be called: {reason}")
