"""Classes of SciPy whose methods are copies of SciPy's code, and instances of them.

For plain arguments, and an instance that holds plain ones, a method is SciPy's.
"""

from __future__ import annotations

import functools
import importlib
import threading
import types
from typing import Any

from .._core.tensor.trace import DerivativeLost, lost_derivative
from .._entering.stand_ins import pair
from ._copied_code import CLASSES, MADE, copy_of, inside, made_once, none_held

#: Methods that draw samples, or compute with code that has no derivative.
REFUSED = {
    "cdf": "it integrates by random points",
    "integrate_box": "it integrates by random points",
    "logcdf": "it integrates by random points",
    "resample": "samples have no derivative",
    "rvs": "samples have no derivative to the parameters; draw those of a standard "
    "distribution with plain parameters, and transform them",
}
#: The modules of SciPy with such methods.
_OF_SAMPLES = ("scipy.stats._multivariate", "scipy.stats._kde")


#: By threads that run a method of SciPy, whose own calls are plain, too.
_running: set[int] = set()


def _dispatched(theirs: types.FunctionType):
    """SciPy's function for plain arguments, of which functions are none, and else a copy."""
    copy = copy_of(theirs)
    is_refused = theirs.__name__ in REFUSED and theirs.__module__ in _OF_SAMPLES

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        thread = threading.get_ident()
        if thread in _running:
            return theirs(*args, **kwargs)
        given = (*args, *kwargs.values())
        if any(map(_is_function, given)) or not none_held(given):
            if is_refused:
                raise _refused(theirs.__qualname__, given)
            return _named(theirs, copy, args, kwargs)
        _running.add(thread)
        try:
            found = theirs(*args, **kwargs)
        finally:
            _running.discard(thread)
        if theirs.__name__ == "__init__":
            vars(args[0]).update({name: converted(one) for name, one in vars(args[0]).items()})
        return converted(found)

    return function


def _named(theirs, copy, args, kwargs):
    """What a copy returns; an error names the method that the user has called."""
    try:
        return inside(copy.function, *args, **kwargs)
    except DerivativeLost as error:
        place = ".".join(["tapegrad", *theirs.__module__.split(".")[:2], ""])
        if not str(error).startswith(place):
            name = f"{place}{theirs.__qualname__}"
            error.args = (f"{name} has no derivative with these arguments: {error}",)
        raise


def _is_function(value) -> bool:
    is_ours = type(value) in MADE or (isinstance(value, type) and value in MADE)
    return callable(value) and not is_ours


def _refused(place: str, given):
    kind, _, name = place.partition(".")
    of = kind.removesuffix("_gen").removesuffix("_frozen")
    return lost_derivative(
        f"tapegrad.scipy.stats.{of}.{name} has no derivative: {REFUSED[name]}", *given
    )


def _member(value):
    """What a class has in place of what SciPy's has; None for all but code."""
    if isinstance(value, types.FunctionType):
        return _dispatched(value)
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_dispatched(value.__func__))
    if isinstance(value, functools.cached_property):
        return functools.cached_property(_dispatched(value.func))
    if isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
        return property(*[part and _dispatched(part) for part in parts], doc=value.__doc__)
    return None


@made_once
def copied_class(theirs: type) -> type:
    """A subclass of one of SciPy's, whose methods take recorded values."""
    bases = [copied_class(one) for one in theirs.__bases__ if one is not object]
    members = {name: _member(value) for name, value in vars(theirs).items()}
    space = {name: one for name, one in members.items() if one is not None}
    space |= {"__doc__": theirs.__doc__, "__module__": theirs.__module__, "__reduce__": _reduced}
    space["is_made_of_state"] = True  # an object for one of SciPy's has its attributes
    space["takes_parameters"] = theirs.__name__.endswith("_gen")  # see `Distribution`
    made = type(theirs)(theirs.__name__, (*bases, theirs), space)
    made.__qualname__ = theirs.__qualname__
    MADE[made] = theirs
    CLASSES[theirs] = made
    return made


@made_once
def copied_result(theirs: type) -> type:
    """A subclass of one of SciPy's, a tuple, whose own methods take recorded values."""
    own = {name: _member(value) for name, value in vars(theirs).items() if name[0] != "_"}
    space = {name: one for name, one in own.items() if one is not None}
    made = type(theirs.__name__, (theirs,), space | {"__module__": theirs.__module__})
    MADE[made] = theirs
    pair(theirs, made)
    return made


@functools.cache
def copied_classes(place: str) -> None:
    """Make those of all classes of a module of SciPy, and let them stand for these."""
    for one in [*vars(importlib.import_module(place)).values()]:
        if isinstance(one, type) and one.__module__ == place:
            pair(one, copied_class(one))


def _reduced(self):
    return _made, (MADE[type(self)], vars(self))


def _made(theirs: type, held: dict[str, Any]):
    made: Any = object.__new__(copied_class(theirs))
    vars(made).update(held)
    return made


def converted(one):
    """An object of SciPy's class as one of ours, with what it holds; others as they are."""
    if type(one) is tuple:
        return tuple(map(converted, one))
    if type(one) not in CLASSES:
        return one
    made = _made(type(one), {name: converted(value) for name, value in vars(one).items()})
    for name, value in vars(one).items():
        if isinstance(value, types.MethodType) and value.__self__ is one:
            vars(made)[name] = getattr(made, value.__name__)
    return made
