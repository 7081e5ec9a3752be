"""Recording switched on and off, per thread: `no_grad` and similar."""

from __future__ import annotations

import functools
import inspect
import threading

from .._core.tensor import runtime as rt


class _State(threading.local):
    inference = False


_state = _State()


def _now() -> tuple[bool, bool, int]:
    """Whether this thread records, whether it is inside `inference_mode`, and which it is."""
    return rt.is_recording(), _state.inference, threading.get_ident()


def _go_back(recording: bool, inference: bool, thread: int) -> None:
    """Switch back to what `_now` gave; to do it twice changes nothing.

    A generator may be ended by another thread than it was begun by, whose mode differs.
    """
    if thread == threading.get_ident():
        _state.inference = inference
        rt.set_recording(recording)


class _Mode:
    """A switch of recording: a context, and a decorator of functions and generators.

    An interrupt between `__enter__` and `__exit__`, after which Python may not call the latter,
    does not leave it switched: the mode is restored with the last reference to the context.
    """

    def __init__(self):
        self._before: list = []

    def _recording(self) -> bool:
        raise NotImplementedError

    def _switch(self) -> None:
        rt.set_recording(self._recording())

    def _again(self) -> _Mode:
        """Another context like this one, for one call of a decorated function."""
        return type(self)()

    def __enter__(self):
        self._before.append(_now())
        self._switch()

    def __exit__(self, *_):
        _go_back(*self._before[-1])
        self._before.pop()

    def __del__(self):
        if self._before:
            _go_back(*self._before[0])

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return _generator(self._again, function)

        @functools.wraps(function)
        def within(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return within


def _generator(again, function):
    """A generator whose body runs in a mode; the code to which it yields does not."""

    @functools.wraps(function)
    def within(*args, **kwargs):
        body = function(*args, **kwargs)
        step, argument = body.send, None
        while True:
            try:
                with again():
                    item = step(argument)
            except StopIteration as end:
                return end.value
            try:
                step, argument = body.send, (yield item)
            except GeneratorExit:
                with again():
                    body.close()
                raise
            except BaseException as error:
                step, argument = body.throw, error

    return within


class _Bare(_Mode):
    """A mode without arguments, which may be a decorator without parentheses."""

    def __new__(cls, function=None):
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self, function=None):
        super().__init__()


class no_grad(_Bare):
    """Disable recording, as a context or a decorator.

    Results of operations inside do not require grad. A decorated generator disables recording
    between its `yield` statements only.

    Parameters
    ----------
    function : callable, optional
        The function to decorate.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(1.0, requires_grad=True)
    >>> with tg.no_grad():
    ...     (2 * x).requires_grad
    False
    """

    def _recording(self):
        return False


class enable_grad(_Bare):
    """Enable recording inside `no_grad`, as a context or a decorator.

    Inside `inference_mode` it has no effect.

    Parameters
    ----------
    function : callable, optional
        The function to decorate.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.no_grad(), tg.enable_grad():
    ...     tg.is_grad_enabled()
    True
    """

    def _recording(self):
        return not _state.inference


class set_grad_enabled(_Mode):
    """Enable or disable recording at once; as a context or a decorator, for a block or a function.

    Parameters
    ----------
    mode : bool
        Whether operations are recorded.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.set_grad_enabled(False):
    ...     tg.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        super().__init__()
        self.mode = bool(mode)
        self._first = _now()
        self._switch()

    def _recording(self):
        return self.mode and not _state.inference

    def _again(self):
        return set_grad_enabled(self.mode)

    def __enter__(self):
        self._before.append(self._first)
        self._switch()

    def __call__(self, function):
        _go_back(*self._first)
        return super().__call__(function)


class inference_mode(_Mode):
    """Disable recording, also inside `enable_grad`, as a context or a decorator.

    Results are ordinary tensors that do not require grad.

    Parameters
    ----------
    mode : bool, optional
        If false, the mode ends inside.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.inference_mode():
    ...     tg.is_inference_mode_enabled(), tg.is_grad_enabled()
    (True, False)
    """

    def __new__(cls, mode=True):
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True):
        super().__init__()
        self.mode = mode

    def _recording(self):
        return not self.mode

    def _again(self):
        return inference_mode(self.mode)

    def _switch(self):
        super()._switch()
        _state.inference = self.mode


def is_grad_enabled() -> bool:
    """Return whether operations of this thread are recorded.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.is_grad_enabled()
    True
    """
    return rt.is_recording()


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is inside `inference_mode`.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.is_inference_mode_enabled()
    False
    """
    return _state.inference
