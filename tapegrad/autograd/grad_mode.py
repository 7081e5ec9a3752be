"""Floor 5: recording switched on and off, per thread: `no_grad` and the like."""

from __future__ import annotations

import functools
import inspect
import threading

from ..tensor import runtime as rt


class _State(threading.local):
    inference = False


_state = _State()


class _Mode:
    """A switch of recording: a context, and a decorator of functions and generators."""

    def __init__(self):
        self._before: list = []

    def _recording(self) -> bool:
        raise NotImplementedError

    def _again(self) -> _Mode:
        """Another context like this one, for one call of a decorated function."""
        return type(self)()

    def __enter__(self):
        self._before.append(rt.set_recording(self._recording()))

    def __exit__(self, *_):
        rt.set_recording(self._before.pop())

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return _generator(self._again, function)

        @functools.wraps(function)
        def within(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return within


def _generator(again, function):
    """A generator whose body runs in a mode, and what it yields to outside of it."""

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
    """A mode without arguments, which may stand as a decorator without parentheses."""

    def __new__(cls, function=None):
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self, function=None):
        super().__init__()


class no_grad(_Bare):
    """Do not record: `with tg.no_grad():`, or as a decorator.

    Results do not require grad. A generator that is decorated runs so between its `yield`s only.

    >>> import tapegrad as tg
    >>> x = tg.tensor(1.0, requires_grad=True)
    >>> with tg.no_grad():
    ...     (2 * x).requires_grad
    False
    """

    def _recording(self):
        return False


class enable_grad(_Bare):
    """Record again inside `no_grad`: a context or a decorator. Inside `inference_mode` it does not.

    >>> import tapegrad as tg
    >>> with tg.no_grad(), tg.enable_grad():
    ...     tg.is_grad_enabled()
    True
    """

    def _recording(self):
        return not _state.inference


class set_grad_enabled(_Mode):
    """Switch recording on or off at once, and back at the end of a `with` block.

    As a decorator it switches in the function only.

    >>> import tapegrad as tg
    >>> with tg.set_grad_enabled(False):
    ...     tg.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        super().__init__()
        self.mode = bool(mode)
        self._first = rt.set_recording(self._recording())

    def _recording(self):
        return self.mode and not _state.inference

    def _again(self):
        return set_grad_enabled(self.mode)

    def __enter__(self):
        rt.set_recording(self._recording())
        self._before.append(self._first)

    def __call__(self, function):
        rt.set_recording(self._first)
        return super().__call__(function)


class inference_mode(_Mode):
    """Do not record, and not inside `enable_grad` either: a context or a decorator.

    `inference_mode(False)` ends it inside. Results are ordinary tensors that do not require grad.

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

    def __enter__(self):
        recording = rt.set_recording(self._recording())
        self._before.append((recording, _state.inference))
        _state.inference = self.mode

    def __exit__(self, *_):
        recording, _state.inference = self._before.pop()
        rt.set_recording(recording)


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded."""
    return rt.is_recording()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return _state.inference
