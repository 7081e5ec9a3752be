"""Anomaly mode: the line that recorded the operation at which a reverse sweep fails."""

from __future__ import annotations

import contextlib
import functools
import warnings

import numpy as np

from .._core.codegen import layout
from .._core.tape import store
from .._core.tape.sweeps import Sweep
from .._core.tape.tape import array_at
from .._core.tensor import operators
from .._derivatives.tape_traversal import Traversal
from ._node_names import name_of

__all__ = ["detect_anomaly", "set_detect_anomaly"]

_places = operators.Places()
_run = operators.Wrapped(Sweep, "run")
_mode = {"on": False, "check_nan": True}


class _Watch:
    """One sweep, which pauses at every row that it reaches."""

    def __init__(self, sweep: Sweep, stops):
        self.sweep, self.stops = sweep, stops
        self.traversal = Traversal(())
        self.name = ""  # of the row that is being swept, "" while it is not known
        self.frames: tuple[operators.Place, ...] = ()
        self.operands: list = []

    def run(self, run) -> None:
        rows = [
            (slot << layout.ROWS_BITS) + position
            for slot in store.order
            for position in range(store.word(slot, layout.USED_ROWS))
        ]
        try:
            run(self.sweep, {**self.stops, **{k: functools.partial(self.stop, k) for k in rows}})
            self.check()
        except Exception:
            if self.name:
                warnings.warn(self.report(), stacklevel=5)
            raise

    def stop(self, number: int) -> None:
        """All of a row's adjoint is in, and the row after it has been swept."""
        self.check()
        if self.sweep.work.frame[layout.FRAME_MET_FREED // 8] == layout.DONE:
            self.look(number)
        if number in self.stops:
            self.stops[number]()

    def look(self, number: int) -> None:
        """Note the name and line of a row while it still exists."""
        _, self.frames = _places.find(number)
        self.name = name_of(self.traversal, number)
        self.operands = self.read(number)

    def read(self, number: int) -> list:
        """Operands of a row that have an adjoint, as (row, view or None)."""
        reader = self.traversal.reader
        if int(reader.row(number)["op"]) <= layout.ARRAY:
            return [(source, None) for source in reader.operands(number)]
        return [
            (int(source), array_at(what) if tag == layout.TAG_ARRAY else None)
            for what, source, tag in reader.references(number)
            if source >= 0 and source != number
        ]

    def check(self) -> None:
        """Raise RuntimeError if an adjoint that the last row has added to is NaN."""
        if not _mode["check_nan"]:
            return
        for k, (source, view) in enumerate(self.operands):
            adjoint = self.sweep.cells(source)
            if adjoint is not None and (base := self.traversal.base(source)) is not None:
                adjoint = self.sweep.adjoint_buffer(source, base if view is None else view)
            if adjoint is not None and np.isnan(adjoint).any():
                raise RuntimeError(
                    f"tapegrad.backward: Function '{self.name}' returned nan values in its {k}th "
                    f"output{self.where()}; check the values that the operation read there"
                )

    def where(self) -> str:
        """The line that recorded the row, in words."""
        for file, line, function in self.frames[:1]:
            return f". It was recorded in {function}, {file}:{line}"
        return ""

    def report(self) -> str:
        if self.frames:
            return (
                f"Error detected in {self.name}. Traceback of forward call that caused the "
                f"error:\n{operators.shown(self.frames)}"
            )
        return (
            f"Error detected in {self.name}. No forward pass information available. Enable detect "
            "anomaly during forward pass for more information."
        )


def _watched(run):
    @functools.wraps(run)
    def watched(sweep, stops=None):
        _Watch(sweep, stops or {}).run(run)

    return watched


def _switch(on: bool, check_nan: bool) -> tuple[bool, bool]:
    """Switch the mode; returns the old one."""
    before = _mode["on"], _mode["check_nan"]
    if on and not before[0]:
        operators.listen(_places.note)
        _run.add(_watched)
    elif before[0] and not on:
        operators.stop_listening(_places.note)
        _run.remove(_watched)
    _mode.update(on=on, check_nan=check_nan)
    return before


class detect_anomaly(contextlib.ContextDecorator):
    """Find the operation behind an error or a NaN in a backward pass; a context or a decorator.

    Inside, every operation remembers the line that recorded it. A backward pass that raises an
    error first warns with the name of the operation and the traceback of its call.

    Parameters
    ----------
    check_nan : bool, optional
        Whether a NaN in the derivative of an operation is an error, a RuntimeError.

    Notes
    -----
    The mode holds for all threads. It is slow: operators run in Python, and the sweep stops at
    every row. Unlike PyTorch, tapegrad does not warn about this. Operations that were recorded
    outside are named without their lines.

    Examples
    --------
    >>> import warnings
    >>> import tapegrad as tg
    >>> x = tg.tensor([-1.0, 4.0], requires_grad=True)
    >>> with warnings.catch_warnings(), tg.autograd.detect_anomaly():
    ...     warnings.simplefilter("ignore")  # prints the traceback of the call of sqrt
    ...     tg.sqrt(x).sum().backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: tapegrad.backward: Function 'SqrtBackward0' returned nan values in its 0th ...
    """

    def __init__(self, check_nan: bool = True):
        self._wanted = True, bool(check_nan)
        self._before: list = []

    def __enter__(self):
        self._before.append(_switch(*self._wanted))

    def __exit__(self, *_):
        _switch(*self._before.pop())


class set_detect_anomaly(detect_anomaly):
    """Enable or disable anomaly mode at once; as a context, for a block.

    Parameters
    ----------
    mode : bool
        Whether it is enabled.
    check_nan : bool, optional
        Whether a NaN is an error; see `detect_anomaly`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.autograd.set_detect_anomaly(False):
    ...     pass
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._wanted = bool(mode), bool(check_nan)
        self._before = [_switch(*self._wanted)]

    def __enter__(self):
        pass
