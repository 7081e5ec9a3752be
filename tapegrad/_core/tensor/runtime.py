"""The compiled parts that tensors are made of, the modes, NumPy's error state."""

from __future__ import annotations

import contextlib
import contextvars
import dis
import importlib
import re
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import compat, layout, process
from ..recorder.scalar_operators import FUNCTIONS
from ..tape import native_types, store
from .tensor_classes import ComplexTensor as ComplexTensor
from .tensor_classes import Tensor as Tensor

# --- NumPy's error state (`np.errstate`, `np.seterr`) and warnings that are errors ----------------
# Values of recorded operations are computed in silence. While the state is *loud*, because it asks
# for more than NumPy does by default, `tensor.operators` lets NumPy look at each operation as
# well. Where only filters make NumPy's default warnings errors, it looks at results that are not
# finite: others meet nothing that NumPy warns of by default, except for some functions.
#
# NumPy keeps its state in a context variable, which is not asked for in each operation. Instead the
# variable that `np.errstate` and `np.seterr` set is replaced by an object that notes loud states.


#: Loud states that are in force in any context: nothing else is looked at while this is 0.
count = 0
#: Called with each change of the count and how loud the state is; once at the first loud state.
on_change: list[Callable[[int, int], None]] = []
on_first: list[Callable[[], None]] = []
#: How loud a state is: not at all; by filters that make default warnings errors; by NumPy's state.
QUIET, CAREFUL, LOUD = range(3)
#: What is no louder than the default, except for underflow, which is ignored by default.
_QUIET = frozenset(("ignore", "warn"))
#: The text by which it is decided what filters do with NumPy's warnings.
_WARNING = "invalid value encountered in scalar divide"
_loud: contextvars.ContextVar[_Loud | None] = contextvars.ContextVar("tapegrad.loud", default=None)
#: Whether warnings are errors in the transform that is under way.
_raising = contextvars.ContextVar("tapegrad.raising", default=False)
_state_lock = process.lock()
_filters: list = []
_filters_raise = False
_state: Any = None  # NumPy's variable, if it is the one that is assumed
_silence: Any = None
_read: Any = None  # NumPy's function that reads it


class _Loud:
    """A loud state, which counts as long as any context is in it.

    Copies of a context share it, as those of asyncio's tasks, and the context of a thread drops it
    when the thread ends.
    """

    __slots__ = ("how",)

    def __init__(self, how: int):
        self.how = how
        _change(1, how)

    def __del__(self, is_finalizing=sys.is_finalizing):
        if not is_finalizing():
            _change(-1, self.how)


class _Noting:
    """NumPy's variable for the functions that set it."""

    def __init__(self, variable):
        self._variable = variable

    def set(self, value):
        """Set NumPy's state; what `reset` takes."""
        token, was_loud = self._variable.set(value), _loud.get() is not None
        look()
        return token, was_loud

    def reset(self, token) -> None:
        own, was_loud = token if isinstance(token, tuple) else (token, True)  # True: not known
        self._variable.reset(own)
        if was_loud or _loud.get() is not None or _raising.get():  # else it is quiet, as before
            look()

    def __getattr__(self, name: str):
        return getattr(self._variable, name)


def watch() -> None:
    """Note loud states from now on, and one that is in force."""
    global _state, _silence, _read
    if _state is None and compat.holds("numpy-error-state", _probe):
        config, umath = _modules()
        _read = umath._get_extobj_dict
        _silence = umath._make_extobj(all="ignore")
        _state = umath._extobj_contextvar
        config._extobj_contextvar = _Noting(_state)
    look()


def _modules() -> list[Any]:
    """NumPy's module that sets its state, and the one that reads it; errors if there are none."""
    return [importlib.import_module(f"numpy._core.{name}") for name in ("_ufunc_config", "umath")]


def _probe() -> bool:
    config, umath = _modules()
    variable = config._extobj_contextvar
    if type(variable) is not contextvars.ContextVar or variable is not umath._extobj_contextvar:
        return False
    seen: list = []
    stub: Any = type("Stub", (), {"set": lambda _, x: seen.append(x), "reset": lambda _, x: None})()
    try:
        config._extobj_contextvar = stub
        with np.errstate(all="ignore"):
            pass
    finally:
        config._extobj_contextvar = variable
    token = variable.set(umath._make_extobj(all="ignore"))
    try:
        read = umath._get_extobj_dict()
        is_read = {kind: read[kind] for kind in np.geterr()} == np.geterr()
        return is_read and len(seen) == 1 and set(np.geterr().values()) == {"ignore"}
    finally:
        variable.reset(token)


def state_is_loud() -> bool:
    """Whether NumPy's state asks for more than by default."""
    how = np.geterr() if _read is None else _read()
    others = how["divide"], how["over"], how["invalid"]
    return how["under"] != "ignore" or not _QUIET.issuperset(others)


def is_loud() -> bool:
    """Whether NumPy is to look at operations of this thread."""
    return count > 0 and _loud.get() is not None


def is_careful() -> bool:
    """Whether it is to look only where results are not finite."""
    loud = _loud.get()
    return loud is not None and loud.how == CAREFUL


def _loudness() -> int:
    if state_is_loud():
        return LOUD
    return CAREFUL if _raising.get() and "warn" in np.geterr().values() else QUIET


def look() -> None:
    """Note how loud the state of this context is now."""
    how, before = _loudness(), _loud.get()
    if how != (QUIET if before is None else before.how):
        _loud.set(_Loud(how) if how else None)


def _change(step: int, how: int) -> None:
    global count
    with _state_lock:
        count += step
        while count and on_first:
            on_first.pop()()
    for call in on_change:
        call(step, how)


@contextlib.contextmanager
def silent():
    """Compute without NumPy's warnings and errors, and unobserved."""
    if _state is None:
        with np.errstate(all="ignore"):
            yield
        return
    state, loud = _state.set(_silence), _loud.set(None)
    try:
        yield
    finally:
        _loud.reset(loud)
        _state.reset(state)


class silence:
    """A context without NumPy's warnings and errors: `np.errstate(all="ignore")` in less time."""

    __slots__ = ("_held",)

    def __enter__(self) -> None:
        if _state is None:
            self._held = np.errstate(all="ignore")
            self._held.__enter__()
        else:
            self._held = _state.set(_silence)

    def __exit__(self, *error) -> None:
        if type(self._held) is np.errstate:
            self._held.__exit__(*error)
        else:
            _state.reset(self._held)


# --- warnings that are errors -------------------------------------------------------------------


def enter_transform() -> None:
    """Look, once for a transform, whether filters make NumPy's warnings errors."""
    global _filters, _filters_raise
    if warnings.filters != _filters:
        _filters_raise = _action() == "error"
        _filters = [*warnings.filters]
    if _filters_raise and _state is not None:
        _raising.set(True)
        look()


def leave_transform() -> None:
    if _raising.get():
        _raising.set(False)
        look()


def _action() -> str:
    """What filters do with a warning of NumPy's."""
    for action, text, category, module, line in list(warnings.filters):
        of_text = text is None or re.compile(text).match(_WARNING)
        if of_text and issubclass(RuntimeWarning, category) and module is None and not line:
            return action
    return "default"


# --- The compiled parts that tensors are made of, started with the first tensor; and the modes ----
# `Scalar` and `Array` are the two compiled classes, `row`, `view_of`, `wrap`, … the recorder's
# functions (see `recorder.scalar_operators`). Importing tapegrad compiles and loads nothing.


Scalar: Any = type("Scalar", (), {})
Array: Any = type("Array", (), {})
row: Any = None
view_of: Any = None
wrap: Any = None
attach: Any = None
hold: Any = None
scalar_leaf: Any = None
scalar_at: Any = None
as_float: Any = None
load: Any = None
same_place: Any = None
started = False
_LIBRARIES = ("tapegrad", "numpy", "scipy", "numba")
_RAISES = {dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE")}
_lock = process.lock()
#: The functions for what compiled slots do not cover, by operator; filled by `tensor.operators`.
slow: dict[str, object] = {}


def _make_array(native_array: type) -> type:
    """The class of array tensors: compiled fields, Python methods, and one slot for the rest."""
    return type(
        "Tensor",
        (native_array, Tensor),
        {
            "__slots__": ("_meta", "__weakref__"),
            "__module__": "tapegrad",
            "__doc__": Tensor.__doc__,
        },
    )


def start() -> None:
    """Compile, or load, what tensors need; the first tensor does it."""
    global Scalar, Array, started
    with _lock:
        if started:
            return
        python = [slow[name] for name in layout.OPERATORS]
        made = native_types.build(Tensor, _make_array, python, store.new_chunk)
        Scalar, Array = made["scalar"], made["array"]
        globals().update({name: made[name] for name in FUNCTIONS})
        native_types.set_word(layout.STATE_BYTES_LIMIT, store.FEWEST_BYTES)
        store.new_chunk()
        for prepare in on_start:
            prepare()
        started = True
    on_change.append(add_special)
    watch()


#: Called once when the compiled classes exist.
on_start: list = []
#: Called once when no transform is active in any thread.
outlived: list = []


def when_started(prepare) -> None:
    """Call a function when the compiled classes exist, which may be now."""
    with _lock:
        if not started:
            on_start.append(prepare)
            return
    prepare()


# --- modes ------------------------------------------------------------------------------------


class _ThreadMode(threading.local):
    recording = True
    depth = 0  # of nested transforms
    trace = None  # of the program that is being traced

    def __init__(self):
        self.inputs = []  # ids of the rows that are inputs of the active transforms
        #: The modes before each context of `_within`, innermost last, with the error by which it
        #: has refused a derivative, or None. Error and traceback are dropped with the context.
        self.entered = []


_mode = _ThreadMode()
_count_lock = process.lock()
_silent: set[int] = set()  # threads that do not record
#: Of the inputs of all threads, those that are differentiated, and the contexts that do it.
_differentiated: dict[int, list] = {}
#: Of inputs that are numbers, the types of what was given.
_given: dict[int, type] = {}
#: Threads that are inside a transform; read before `_mode`, which takes ten times as long to ask.
transforming: set[int] = set()
#: Where a thread has found whole arrays equal, of which one is recorded, since its last call began.
found_equal: dict[int, str] = {}


def is_recording() -> bool:
    """Whether operations of this thread are recorded."""
    return _mode.recording


def set_recording(on: bool) -> bool:
    """Switch recording in this thread; returns the old state.

    An interrupt meanwhile leaves it unchanged.
    """
    before = _mode.recording
    if not on and _mode.trace is not None:
        _mode.trace.refuse("recording is switched off inside it (no_grad)", faithful=True)
    if before != on:
        try:
            _switch(on)
        except BaseException:
            _switch(before)
            raise
    return before


def _switch(on: bool) -> None:
    """Set it in Python and in compiled code; idempotent.

    Compiled operators test a word: the number of threads that do not record. While it is not zero
    they ask whether theirs is one.
    """
    _mode.recording = on
    native_types.set_silent(not on)
    with _count_lock:
        (_silent.discard if on else _silent.add)(threading.get_ident())
        native_types.set_word(layout.STATE_SILENT, len(_silent))


@process.in_child
def _alone() -> None:
    """The other threads are gone: those that did not record, those inside transforms."""
    _silent.intersection_update({threading.get_ident()})
    transforming.intersection_update({threading.get_ident()})
    native_types.set_word(layout.STATE_SILENT, len(_silent))


def add_special(step: int, how: int = LOUD) -> None:
    """Count the listeners to rows, and loud states; compiled operators call Python meanwhile."""
    with _count_lock:
        word = layout.STATE_SPECIAL if how == LOUD else layout.STATE_CAREFUL
        native_types.set_word(word, native_types.get_word(word) + step)


def trace() -> Any:
    """The active trace of this thread (see `tensor.trace`), or None."""
    return _mode.trace


@contextlib.contextmanager
def tracing(made):
    """Let `made` be this thread's trace."""
    before = _mode.trace
    try:
        _mode.trace = made
        yield made
    finally:
        if _mode.trace is made:
            _mode.trace = before


@contextlib.contextmanager
def _within(recording: bool, levels: int):
    """Record or not, so many transforms further in, outside of all if negative; then as before.

    A generator, which is closed even if an interrupt comes between its parts: with the last
    reference to it, of the interrupt's traceback. When outer contexts have been left by then, there
    is nothing to go back to.

    A refusal that the code inside has caught is raised at the end, also in place of another error,
    which may follow from it; not of one that the user's code raises elsewhere.
    """
    mode = _mode
    before = mode.recording
    entry: list[Any] = [before, mode.depth, len(mode.inputs), None]
    try:
        mode.entered.append(entry)
        if before != recording:
            set_recording(recording)
        if levels > 0:
            if threading.get_ident() not in transforming:
                enter_transform()
            mode.depth += levels
            transforming.add(threading.get_ident())
        elif levels < 0:
            mode.depth = 0
        yield before
        if entry[-1] is not None:
            raise entry[-1]
    except Exception as error:
        if entry[-1] is None or error is entry[-1] or _is_of_user(error, entry[-1]):
            raise
        raise entry[-1] from None
    finally:
        try:
            _go_back(mode, entry)
        except BaseException:  # an interrupt: once more
            _go_back(mode, entry)
            raise


def _is_of_user(error: Exception, refusal: Exception) -> bool:
    """Whether an error comes from a `raise` in code that is neither ours nor of a library, and not
    from the handling of a refusal.
    """
    before: BaseException | None = error
    while before is not None and before is not refusal:
        before = before.__cause__ or before.__context__
    place = error.__traceback__ if before is None else None
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    outer = place.tb_frame.f_globals.get("__name__", "").partition(".")[0]
    is_library = outer in _LIBRARIES or (outer != "__main__" and outer in sys.stdlib_module_names)
    return not is_library and place.tb_frame.f_code.co_code[place.tb_lasti] in _RAISES


def recording():
    """Record whatever the thread's mode: inside a transform."""
    return _within(True, 1)


def inside():
    """Inside a transform, in the thread's mode: functions are as in code that is entered."""
    return _within(is_recording(), 1)


def outside(on: bool = False):
    """As `switched`, for what is called inside a transform and is none of it: a black box."""
    return _within(on, -1)


def switched(on: bool):
    """Record, or do not, inside this context; it gives the mode before."""
    return _within(on, 0)


def _go_back(mode: _ThreadMode, entry: list) -> None:
    """Leave a context and those inside it; to do it twice changes nothing."""
    entered = mode.entered
    if not entered or entered[-1] is not entry:
        if not any(one is entry for one in entered):
            return
        while entered[-1] is not entry:
            entered.pop()
    recording, depth, inputs, _ = entry
    noted = mode.inputs
    while len(noted) > inputs:
        _differentiated.pop(noted[-1], None)
        _given.pop(noted[-1], None)
        noted.pop()
    mode.depth = depth
    if not any([one[1] for one in entered]):
        transforming.discard(threading.get_ident())
        leave_transform()
    if mode.recording != recording:
        set_recording(recording)
    entered.pop()
    while outlived and not transforming:
        outlived.pop()()


def note_input(number: int, differentiated: bool = True, kind: type | None = None) -> None:
    """Register a row as an input of the innermost active transform, and the type of a number."""
    _mode.inputs.append(number)
    if kind is not None:
        _given[number] = kind
    if differentiated:
        _differentiated[number] = _mode.entered[-1]


def given(number: int) -> type | None:
    """The type of the number that was given for an input; None for others."""
    return _given.get(number)


def noted_inputs() -> list[int]:
    """Rows that are inputs of the active transforms, outermost first."""
    return list(_mode.inputs)


def differentiated() -> set[int]:
    """Rows with respect to which active transforms differentiate, of any thread."""
    return set(_differentiated)


def remember(refusal: Exception, inputs: set[int]) -> None:
    """Let the transforms that differentiate with respect to some rows raise an error at their end.

    Each remembers the last one, which is the one that arrives if nothing catches it.
    """
    for number in inputs:
        context = _differentiated.get(number)
        if context is not None:
            context[-1] = refusal


def take_refusal() -> Exception | None:
    """The error that the innermost context remembers, for a caller that goes on by other means."""
    context = _mode.entered[-1]
    refusal, context[-1] = context[-1], None
    return refusal


def in_transform() -> bool:
    """Whether this thread is inside a transform, `tg.compile` and `tg.vmap` included."""
    return bool(transforming) and _mode.depth > 0


def is_nested() -> bool:
    """Whether a transform runs inside another."""
    return _mode.depth > 1
