"""Every function of NumPy's namespaces and of `math`: differentiable, answers, or refuses by name.

The calls are found by trying, as in `test_every_function`, which does the same with plain NumPy.
What always refuses has a stated reason.
"""

import importlib
import inspect
import math
import re
import warnings

import every_call
import numpy
import pytest
import test_every_function as every_function

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad._core.tensor.callers import OF_NUMPY as REASONS
from tapegrad.numpy._lists import REFUSED

#: Names that are not called: they write files, print, or set what other tests use.
NOT_CALLED = {*every_function.SILENT, "load", "get_include", "put_along_axis"}


def functions(space, theirs):
    """Functions of a namespace, with NumPy's of the same names: by them calls are found."""
    names = theirs.__all__ if "polynomial" in theirs.__name__ else dir(theirs)
    for name in sorted(name for name in {*names} - NOT_CALLED if not name.startswith("_")):
        found = getattr(space, name)
        if callable(found) and not isinstance(found, type):
            yield name, (found, getattr(theirs, name))


SPACES = {
    "numpy": (np, numpy),
    "linalg": (np.linalg, numpy.linalg),
    "fft": (np.fft, numpy.fft),
    **{
        name: (getattr(np.polynomial, name), getattr(numpy.polynomial, name))
        for name in ("polynomial", "chebyshev", "hermite", "hermite_e", "laguerre", "legendre")
    },
}
GROUPS = {
    f"{space}.{first}": (space, group)
    for space, pair in SPACES.items()
    for first, group in every_function.groups(functions(*pair), 20).items()
}


def outcomes(ours, theirs):
    """For each call and place of a recorded argument the error, None where there is none."""
    for found in every_call.calls_of(theirs):
        call = every_call.Call(ours, found.kinds, found.keyword)
        for place in call.arguments()[2]:
            args, kwargs, _ = call.arguments()
            x = args[place] if isinstance(place, int) else kwargs[place]
            try:
                tg.grad(lambda t: every_function.weighed(call.at(place, t)))(x)
            except Exception as error:
                yield call, place, error
            else:
                yield call, place, None


@pytest.mark.parametrize("first", GROUPS)
def test_every_function_of_the_stand_in(first):
    space, group = GROUPS[first]
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, (ours, theirs) in group:
            refused = []
            for call, place, error in outcomes(ours, theirs):
                if error is None:
                    # No points in no order, where NumPy gives what it gives; no roots of constants.
                    if name != "interp" and not name.endswith("roots"):
                        every_function.check(call, place)
                else:
                    assert isinstance(error, (TypeError, ValueError, IndexError)), (call, error)
                    assert str(error).startswith("tapegrad"), (call, place, error)
                    named = re.match(
                        r"tapegrad(\.|: \w+\(\) is not|: float\(\), called by)", str(error)
                    )
                    assert named or theirs.__name__ in str(error), (call, error)
                refused.append(error is not None)
            if refused and all(refused):
                # The memory of a recorded tensor is not given to others.
                known = name in (*REASONS, *REFUSED, "from_dlpack") or space == "fft"
                assert known, f"{name} always refuses, without a reason in REASONS or REFUSED"


def test_reasons_are_of_what_is_refused():
    """A function that has got a derivative is no longer in the tables."""
    known = {name for space in (numpy, numpy.linalg, numpy.fft) for name in dir(space)}
    assert {*REASONS, *REFUSED} <= known


def test_what_is_not_called_has_a_reason():
    """Functions for which no call was found: of files, settings, texts, shapes."""
    unknown = []
    for name, (_, theirs) in functions(np, numpy):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not every_call.calls_of(theirs):
                unknown.append(name)
    assert {*unknown} <= {*WITHOUT_CALLS.split()}


#: Their arguments are shapes, functions, texts or dtypes; those of them that take arrays beside
#: have tests of their own.
WITHOUT_CALLS = """
apply_along_axis apply_over_axes astype binary_repr broadcast_shapes can_cast cross
datetime_as_string datetime_data digitize dsplit einsum einsum_path empty eye fromfunction fromiter
frompyfunc fromregex get_printoptions getbufsize geterr geterrcall identity indices isdtype isnat
issubdtype mask_indices moveaxis nested_iters ones packbits promote_types ravel_multi_index reshape
rollaxis swapaxes take_along_axis typename unpackbits unravel_index zeros
"""


# --- math -----------------------------------------------------------------------------------------

BUILTINS = [n for n in dir(math) if inspect.isbuiltin(getattr(math, n))]


PAIR = [0.3, 0.4], [1.1, 0.2]


def numbers_for(function):
    """Arguments that a function of `math` takes; floats first."""
    for args in (
        (0.37,),
        (0.37, 0.81),
        (1.37,),
        (0.37, 0.81, 0.22),
        ([0.3, 0.4],),
        (5,),
        (5, 2),
        PAIR,
    ):
        try:
            function(*args)
        except (TypeError, ValueError, OverflowError):
            continue
        return args
    return None


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.usefixtures("not_entered")
def test_functions_of_math_refuse_recorded_numbers_and_name_the_import(name):
    function = getattr(math, name)
    args = numbers_for(function)
    if args is None or isinstance(args[0], list) or not isinstance(args[0], float):
        return
    text = r"^tapegrad: math\..*import tapegrad.math as math|^tapegrad"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in ("ceil", "floor", "trunc"):  # whole numbers, by methods of their own
            return
        with pytest.raises(TypeError, match=text):
            tg.grad(lambda t: function(t, *args[1:]) * t)(args[0])


def replaced(args, place, value):
    """Arguments with another number at a place: of a list its first."""
    new = [value, *args[place][1:]] if isinstance(args[place], list) else value
    return (*args[:place], new, *args[place + 1 :])


@pytest.mark.parametrize("name", BUILTINS)
def test_functions_of_the_stand_in_for_math(name):
    """The derivative of a number is that of differences; other answers are Python's."""
    ours, theirs = getattr(tg.math, name), getattr(math, name)
    args = numbers_for(theirs)
    if args is None:
        assert name in ("sumprod", "fma", "nextafter"), name
        return
    for place, x in enumerate(args):
        x = float(x[0] if isinstance(x, list) else x)
        at = lambda u: theirs(*replaced(args, place, u))
        recorded = tg.tensor([x], requires_grad=True)[0]
        try:
            made = ours(*replaced(args, place, recorded))
        except TypeError as error:
            assert str(error).startswith(f"tapegrad.math.{name}: ") or refuses(at, x), error
            continue
        if not isinstance(made, tg.Tensor):
            parts, wanted = (made, at(x)) if isinstance(made, tuple) else ((made,), (at(x),))
            for part, one in zip(parts, wanted, strict=True):
                assert (part.item() if isinstance(part, tg.Tensor) else part) == one
            continue
        assert made.item() == pytest.approx(at(x), rel=1e-15)
        found = tg.grad(lambda t: ours(*replaced(args, place, t)))(x)
        assert found == pytest.approx((at(x + 1e-6) - at(x - 1e-6)) / 2e-6, rel=1e-7, abs=1e-8)


def refuses(function, x) -> bool:
    """Whether Python's function takes no float there."""
    try:
        function(x)
    except TypeError:
        return True
    return False


def test_submodules_of_numpy_are_imported_by_statements():
    import tapegrad.numpy.ma as ma
    from tapegrad.numpy.lib.stride_tricks import sliding_window_view

    assert ma is numpy.ma and ma.__spec__.name == "numpy.ma"
    assert sliding_window_view is numpy.lib.stride_tricks.sliding_window_view
    assert importlib.import_module("tapegrad.numpy.lib.recfunctions").__name__.startswith("numpy.")
    assert importlib.import_module("tapegrad.numpy.fft").__name__ == "tapegrad.numpy.fft"
    for name in ("tapegrad.numpy.nothing", "tapegrad.numpy.ma.nothing"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            importlib.import_module(name)
