"""Every function with a recorded argument in every place: the right derivative, or an error.

Nothing gives a derivative of zero because it was not recorded. The calls are found by trying (see
`every_call`); differences of the same function on plain arrays say what is right.
"""

import inspect
import warnings

import every_call
import numpy as np
import numpy.testing.overrides
import pytest
import scipy.special
from extent import rounds

import tapegrad as tg
from tapegrad._core.operations.numpy_protocols import COMPARISONS, UNRECORDED
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._core.tensor.registry import PUBLIC
from tapegrad._core.tensor.values import is_recorded, is_tensor, value_of

STEP = 1e-6
SYMMETRIC = "cholesky eigh eigvalsh".split()
FILES = "save savetxt savez savez_compressed loadtxt genfromtxt fromfile fromstring".split()
RANDOM = ("dropout",)
SETTINGS = "set_printoptions seterr seterrcall setbufsize".split()
REPORTS = "show_config show_runtime get_include info test bmat print".split()
SILENT = {*FILES, *SETTINGS, *REPORTS}
METHODS = (
    "all any argmax argmin argpartition argsort astype choose clip clone conj conjugate copy "
    "cumprod cumsum detach diagonal dot flatten imag max mean min mT ndim nonzero prod ravel "
    "real repeat reshape round searchsorted shape size squeeze std sum swapaxes T take trace "
    "transpose var __abs__ __add__ __and__ __divmod__ __eq__ __floordiv__ __ge__ __getitem__ "
    "__gt__ __le__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ "
    "__radd__ __rand__ __rdivmod__ __rfloordiv__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ "
    "__rsub__ __rtruediv__ __rxor__ __sub__ __truediv__ __xor__ __lshift__ __rshift__ "
    "__rlshift__ __rrshift__ __copy__"
).split()


@pytest.fixture(autouse=True)
def settings_stay():
    """What is called must not change NumPy's settings, which other tests share."""
    before = np.get_printoptions(), np.geterr(), scipy.special.geterr()
    yield
    assert (np.get_printoptions(), np.geterr(), scipy.special.geterr()) == before


def overridable():
    for function in numpy.testing.overrides.get_overridable_numpy_array_functions():
        if function.__name__ not in FILES and "recfunctions" not in function.__module__:
            yield f"{function.__module__}.{function.__name__}", function


def ufuncs():
    """NumPy's, and SciPy's with whatever else `scipy.special` has."""
    for ufunc in numpy.testing.overrides.get_overridable_numpy_ufuncs():
        if getattr(np, ufunc.__name__, None) is ufunc:
            yield f"ufunc {ufunc.__name__}", ufunc
            for method in ("reduce", "accumulate", "outer", "reduceat"):
                yield f"ufunc {ufunc.__name__}.{method}", renamed(getattr(ufunc, method), ufunc)
    for name, function in inspect.getmembers(scipy.special, callable):
        is_called = not name.startswith("_") and name not in SETTINGS
        if is_called and not inspect.isclass(function):
            yield f"special {name}", function


def renamed(method, ufunc):
    def call(*args, **kwargs):
        return method(*args, **kwargs)

    call.__name__ = ufunc.__name__
    return call


def others():
    """NumPy's functions that ask no tensor; those of this package; methods and operators."""
    dispatched = set(numpy.testing.overrides.get_overridable_numpy_array_functions())
    for space in (np, np.fft):
        for name, function in inspect.getmembers(space, inspect.isroutine):
            known = function in dispatched or isinstance(function, np.ufunc)
            if not name.startswith("_") and not known and name not in SILENT:
                yield f"{space.__name__}.{name}", function
    for name, function in PUBLIC.items():
        yield f"tg.{name}", function
    for name, function in inspect.getmembers(tg.nn.functional, inspect.isfunction):
        if name not in RANDOM:
            yield f"nn.functional.{name}", function
    for name in METHODS:
        yield f"method {name}", method(name)


def method(name):
    def call(x, *args, **kwargs):
        found = getattr(x, name)
        return found(*args, **kwargs) if callable(found) else found

    call.__name__ = name
    return call


def floats_of(result):
    """The parts of a result that hold floats."""
    kinds = (np.ndarray, np.generic, float)
    leaves = [leaf for _, leaf in tree_leaves(result) if is_tensor(leaf) or isinstance(leaf, kinds)]
    return [leaf for leaf in leaves if np.asarray(value_of(leaf)).dtype.kind == "f"]


def shapes_of(result):
    return [np.shape(value_of(leaf)) for leaf in floats_of(result)]


def weighed(result):
    """One number that every finite element of a result enters with a weight of its own."""
    total = 0.0
    for k, leaf in enumerate(floats_of(result)):
        value = np.asarray(value_of(leaf))
        weights = np.cos(np.arange(value.size) + k + 1).reshape(value.shape)
        finite = np.isfinite(value)
        leaf = leaf if is_tensor(leaf) else value
        total = total + np.sum(np.where(finite, leaf, 0.0) * weights)
    return total


def direction(x):
    if isinstance(x, list):
        return [direction(item) for item in x]
    return np.sin(1.0 + np.arange(np.size(x))).reshape(np.shape(x))


def moved(x, along, step):
    if isinstance(x, list):
        return [moved(*pair, step) for pair in zip(x, along, strict=True)]
    return x + step * along if np.ndim(x) else float(x + step * along)


def product(gradient, along):
    if isinstance(gradient, list):
        return sum(product(*pair) for pair in zip(gradient, along, strict=True))
    return float(np.sum(gradient * along))


def check(call, place):
    """A call with a recorded argument at a place gives the right derivative, or raises by name."""
    args, kwargs, _ = call.arguments()
    x = args[place] if isinstance(place, int) else kwargs[place]
    along = direction(x)
    if every_call.name_of(call.function) in SYMMETRIC:  # reads a triangle
        along = along + np.swapaxes(along, -1, -2)
    unrecorded = []

    def f(t):
        result = call.at(place, t)
        floats = floats_of(result)
        unrecorded.append(floats and not any(map(is_recorded, floats)))
        return weighed(result)

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "tapegrad.*arbitrary", RuntimeWarning)
            found = product(tg.grad(f)(x), along)
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeWarning) as error:
        name = every_call.name_of(call.function)
        words = "tapegrad", "Tensor", "must be an array", name
        assert any(word in str(error) for word in words), call
        return
    if every_call.name_of(call.function) == "empty_like":
        return  # whatever was in memory
    if every_call.name_of(call.function) == "frexp":
        return  # mantissas jump at powers of two, which arguments have
    near = [call.at(place, moved(x, along, step)) for step in (STEP, -STEP)]
    if any(shapes_of(result) != shapes_of(call.at(place, x)) for result in near):
        return  # zeros are left out: near them is another shape
    ends = [weighed(result) for result in near]
    wanted = (ends[0] - ends[1]) / (2 * STEP)
    if np.isfinite(found):  # NaN where there is no derivative
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=str(call))
    if unrecorded[0] and place == 0:
        assert has_reason(call), f"{call} gives plain floats, without a reason"


#: Of no table: conditions, shapes, whole numbers below a recorded end, zeros, ulps, constants.
REASONS = (
    *("where", "compress", "extract", "piecewise"),
    "polyfit",  # a fit of degree 0 does not depend on the points
    *("full", "full_like", "resize", "arange", "imag", "spacing"),
    # what is made of other arguments than the tensor that is given as like=
    *"array asarray asanyarray ascontiguousarray asfortranarray empty eye fromfunction".split(),
    *"identity ones require tri zeros".split(),
)


def has_reason(call) -> bool:
    """Whether it is stated why the derivative of a function is zero; SciPy's own are its affair."""
    stated = (*" ".join(UNRECORDED.values()).split(), *COMPARISONS, *REASONS)
    if any(found is call.function for found in vars(scipy.special).values()):
        return True
    return every_call.name_of(call.function) in stated


#: Calls of a function, with different arguments.
MOST = rounds(3, 2)


def check_all(function, most=MOST):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in every_call.calls_of(function, most):
            for place in call.arguments()[2]:
                check(call, place)


def groups(pairs, size=12):
    """Functions some at a time, sorted, by the name of the first."""
    ordered = sorted(dict(pairs).items())
    return {ordered[k][0]: ordered[k : k + size] for k in range(0, len(ordered), size)}


OVERRIDABLE, UFUNCS, OTHERS = groups(overridable()), groups(ufuncs(), 40), groups(others(), 20)


@pytest.mark.parametrize("first", OVERRIDABLE)
def test_functions_of_numpy(first):
    for _, function in OVERRIDABLE[first]:
        check_all(function)


@pytest.mark.parametrize("first", UFUNCS)
def test_ufuncs(first):
    for _, function in UFUNCS[first]:
        check_all(function)


@pytest.mark.parametrize("first", OTHERS)
def test_other_functions_and_methods(first):
    for _, function in OTHERS[first]:
        check_all(function)


#: Attributes that are not called above, by why they need not be.
NOT_CALLED = {
    "leaves on purpose; inside a transform refused where nobody asks for a number": (
        "item tolist numpy to_numpy tobytes tofile __array__ __float__ __int__ __complex__ "
        "__bool__ __index__ __format__ __round__ __floor__ __ceil__ __trunc__ as_integer_ratio hex "
        "_numba_type_"
    ),
    "of the graph": (
        "backward grad grad_fn register_hook register_post_accumulate_grad_hook retain_grad "
        "retains_grad requires_grad requires_grad_ is_leaf"
    ),
    "shapes, dtypes, elements one by one": (
        "dtype flags itemsize nbytes strides __iter__ __reversed__ __len__"
    ),
    "written in place": (
        "put __setitem__ __delitem__ __iadd__ __ifloordiv__ __imatmul__ __imod__ __imul__ __ipow__ "
        "__isub__ __itruediv__"
    ),
    "of the protocols, called by every function": (
        "__array_function__ __array_namespace__ __array_priority__ __array_ufunc__ "
        "__pandas_priority__"
    ),
    "as NumPy's": "__invert__ __contains__ base device to_device is_integer",
    "of copies, tested in test_numpy_leaving": "__deepcopy__",
    "of functions of the same names": "choose compress fill flat partition sort",
    "refused, or of tensors that are not recorded: see test_numpy_methods": (
        "byteswap ctypes data dump dumps getfield resize setfield setflags tobytes tofile view "
        "__dlpack__ __dlpack_device__"
    ),
}


def test_every_attribute_of_tensors_is_known():
    tensor = tg.tensor([1.0], requires_grad=True)
    known = {*METHODS, *" ".join(NOT_CALLED.values()).split(), *dir(object)}
    found = {*dir(tensor), *dir(tensor[0])}
    inner = {
        "__module__",
        "__slotnames__",
        "__slots__",
        "__static_attributes__",
        "__weakref__",
        "_array",
        "_chunk",
        "_id",
        "_kind",
        "_meta",
        "_value",
    }
    assert found - known - inner == set()


def test_enough_calls_are_found():
    """Else the tests above would be empty."""
    found = [every_call.calls_of(f) for group in OVERRIDABLE.values() for _, f in group]
    assert sum(map(bool, found)) > 180 and sum(map(len, found)) > 1000


NAMES = " ".join(UNRECORDED.values()).split()


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(np, name)])
def test_what_is_not_recorded_is_an_integer_a_truth_or_constant(name):
    constant = UNRECORDED["arrays of constants"].split()
    for call in every_call.calls_of(getattr(np, name)):
        args, kwargs, _ = call.arguments()
        if name in ("isposinf", "isneginf") and len(args) > 1:
            continue  # their out= is given, of floats
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5: k= is a float
            result = call.function(*args, **kwargs)
        for leaf in floats_of(result):
            assert name in constant and (name == "empty_like" or np.ptp(leaf) == 0.0)


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(np, name)])
def test_what_is_not_recorded_is_computed_again_by_programs(name):
    """At other values, where integers and truths come out otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [c for c in every_call.calls_of(getattr(np, name)) if not c.keyword]
        for call in calls[:4]:
            args, _, places = call.arguments()
            place = places[0]
            if not isinstance(args[place], np.ndarray) or name in ("empty_like", *TEXT):
                continue

            def f(x, call=call, place=place):
                return as_number(call.at(place, x)) + np.sum(x)

            compiled = tg.compile(f)
            for x in (args[place], args[place], -args[place][::-1], args[place] * 3.0):
                np.testing.assert_allclose(compiled(x), f(x), rtol=1e-13, err_msg=str(call))


TEXT = UNRECORDED["text"].split()


def as_number(result):
    """Integers, truths and numbers as one number."""
    total = 0.0
    for k, (_, leaf) in enumerate(tree_leaves(result)):
        if is_tensor(leaf) or isinstance(leaf, (np.ndarray, np.generic, int, float)):
            total = total + np.sum(
                leaf * np.cos(np.arange(np.size(leaf)) + k).reshape(np.shape(leaf))
            )
    return total
