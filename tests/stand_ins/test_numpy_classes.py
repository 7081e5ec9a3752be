"""Classes, names, signatures and errors of `tapegrad.numpy`."""

import copy
import doctest
import inspect
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy
import pytest
from declared import close
from stand_in import X, both

import tapegrad as tg
import tapegrad.numpy as np

# --- classes --------------------------------------------------------------------------------------


def test_classes_as_dtypes():
    dtype = numpy.dtype(float)
    assert np.float64 == dtype and dtype == np.float64 and numpy.zeros(2).dtype == np.float64
    assert np.float64 == numpy.float64 and numpy.float64 == np.float64 and np.float64 != np.float32
    assert {np.float64: 1}[numpy.float64] == {numpy.float64: 1}[np.float64] == 1
    assert np.dtype(np.float64) == dtype and np.zeros(2, np.float32).dtype == numpy.float32
    assert np.issubdtype(np.float64, np.floating) and np.issubdtype(dtype, np.number)
    assert not np.issubdtype(int, np.floating) and np.issubdtype(np.int32, np.integer)
    assert issubclass(numpy.float64, np.floating) and issubclass(np.float64, numpy.floating)
    assert issubclass(np.float64, float) and not issubclass(int, np.number)
    assert np.finfo(np.float64).eps == 2.0**-52 and np.iinfo(np.int8).max == 127
    assert np.result_type(np.float32, np.float64) == dtype and np.can_cast(np.int32, np.float64)
    assert np.array([1, 2], dtype=np.float64).astype(np.float32).dtype == np.float32
    assert np.dtype([("a", np.float64)]) == numpy.dtype([("a", float)])
    assert np.isdtype(np.dtype(np.float64), "real floating") and repr(np.float64) == repr(
        numpy.float64
    )


def test_classes_and_what_is_of_them():
    x = tg.tensor(X, requires_grad=True)
    assert isinstance(x, np.ndarray) and not isinstance(x[0], np.ndarray)
    assert isinstance(X, np.ndarray) and not isinstance([1.0], np.ndarray)
    for kind in (np.float64, np.floating, np.inexact, np.number, np.generic, np.double):
        assert isinstance(x[0], kind) and isinstance(np.sum(x), kind) and not isinstance(x, kind)
        assert isinstance(numpy.float64(1.0), kind) and not isinstance(1.0, kind)
    assert not isinstance(x[0], np.integer) and isinstance(np.argmax(x), np.integer)
    assert not isinstance(x[0], np.float32) and isinstance(x.astype(np.float32)[0], np.float32)
    assert isinstance(x, (float, np.ndarray)) and not isinstance(None, np.ndarray)
    assert isinstance(np.sin, np.ufunc) and isinstance(numpy.sin, np.ufunc)
    assert not isinstance(np.sum, np.ufunc) and not isinstance(3, np.ufunc)


def test_classes_make_numpys_objects():
    assert type(np.float64(3)) is numpy.float64 and type(np.ndarray((2,))) is numpy.ndarray
    assert type(np.int32(2.5)) is numpy.int32 and type(np.float64([1, 2])) is numpy.ndarray
    assert type(pickle.loads(pickle.dumps(np.float64(3)))) is numpy.float64
    assert pickle.loads(pickle.dumps(np.float64)) is np.float64
    assert pickle.loads(pickle.dumps([np.ndarray, np.sin, np.linalg.norm])) == [
        np.ndarray,
        np.sin,
        np.linalg.norm,
    ]
    assert copy.deepcopy(np.float64) is np.float64
    assert np.float64.fromhex("0x1p0") == 1.0


class Tagged(np.ndarray):
    def __new__(cls, data, tag):
        made = numpy.asarray(data).view(cls)
        made.tag = tag
        return made


class Special(np.float64):
    pass


def test_classes_of_users():
    made = Tagged([1.0, 2.0], "a")
    assert issubclass(Tagged, numpy.ndarray) and isinstance(made, numpy.ndarray)
    assert type(made) is Tagged and made.tag == "a" and isinstance(made, np.ndarray)
    assert not isinstance(X, Tagged) and isinstance(made, Tagged) and Tagged != np.ndarray
    assert type(Special(2.0)) is Special and isinstance(Special(2.0), numpy.float64)
    with pytest.raises(TypeError, match="such subclasses of ndarray are not supported"):
        tg.tensor([1.0, 2.0], requires_grad=True) * made


def test_a_view_as_the_class():
    made = X.view(np.ndarray)
    close(tg.grad(lambda x: np.sum(x * made))(X), X)
    close(tg.grad(lambda x: np.sum(made * np.sin(x)))(made), X * np.cos(X))


def test_integers_of_recorded_values():
    f = lambda x: x[np.int64(x[0])] * np.int32(x[2])
    both(f, X, X + 1.0 * (X > 2.0))


@pytest.mark.parametrize("kind", [np.complex128, np.float16, np.longdouble])
def test_numbers_that_hold_no_derivative(kind):
    with pytest.raises(
        TypeError, match=f"^tapegrad.numpy.{kind.__name__}: a recorded value .*lost"
    ):
        tg.grad(lambda x: kind(x))(1.0)
    assert tg.grad(lambda x: x * float(kind(3).real))(1.0) == 3.0


# --- names, signatures ----------------------------------------------------------------------------


def test_every_name_of_numpy_is_there():
    for name in numpy.__all__:
        assert hasattr(np, name), name
    assert set(np.__all__) == set(numpy.__all__) and set(dir(numpy)) <= set(dir(np))
    assert np.pi is numpy.pi and np.newaxis is None and np.errstate is numpy.errstate
    with pytest.raises(AttributeError, match="no attribute 'sine'"):
        np.sine
    space = {}
    exec("from tapegrad.numpy import *", space)
    assert space["zeros"] is np.zeros
    for name in numpy.linalg.__all__:
        assert hasattr(np.linalg, name)
    assert tg.numpy is np and tg.tensor([1.0]).__array_namespace__() is np


def test_ufuncs_keep_their_attributes():
    public = [name for name in dir(numpy.ufunc) if not name.startswith("_")]
    for ufunc in (np.sin, np.add, np.modf, np.matmul):
        theirs = getattr(numpy, ufunc.__name__)
        for name in public:
            ours = getattr(ufunc, name)
            assert callable(ours) or ours == getattr(theirs, name)
        assert ufunc.__name__ == theirs.__name__
        if hasattr(theirs, "__signature__"):  # from NumPy 2.4 on
            assert inspect.signature(ufunc) == inspect.signature(theirs)
    assert np.add.reduce([1, 2]) == 3 and np.add.accumulate([1, 2]).tolist() == [1, 3]
    assert np.multiply.outer([1, 2], [3]).tolist() == [[3], [6]] and np.add.nin == 2
    a = numpy.zeros(2)
    np.add.at(a, [0, 0], 1.0)
    assert a.tolist() == [2.0, 0.0]
    assert inspect.signature(np.sum) == inspect.signature(numpy.sum)
    assert np.sin(0.5, out=numpy.empty(())) == numpy.sin(0.5)


def test_functions_are_read_by_elementwise():
    wave = tg.elementwise(lambda x: np.sin(x) * np.where(x > 0.0, np.maximum(x, 1.0), np.exp(x)))
    close(
        tg.grad(lambda x: np.sum(wave(x)))(X),
        numpy.cos(X) * numpy.maximum(X, 1) + numpy.sin(X) * (X > 1),
    )


# --- errors ---------------------------------------------------------------------------------------

REFUSED = {
    "matrix": (lambda x: np.asmatrix(x), r"^tapegrad.numpy.asmatrix: .*use np.atleast_2d"),
    "r_ of matrices": (lambda x: np.r_["r", x], r"^tapegrad.numpy.r_: 'r' makes matrices"),
    "mgrid": (lambda x: np.mgrid[0 : x[0] : 5j], r"^tapegrad.numpy.mgrid: .*use np.meshgrid of"),
    "objects": (lambda x: np.array([x[0], 1], dtype=object), r"^tapegrad.numpy.array: .*object"),
    "plain out=": (lambda x: np.sin(x, out=X.copy()), r"^tapegrad.sin: out=: .*np.zeros"),
    "a callback": (
        lambda x: np.apply_along_axis(lambda _: numpy.array([x[0]]), 0, X),
        "^tapegrad",
    ),
    "ragged": (lambda x: np.array([[x[0]], [x[1], x[2]]]), r"shapes \[\(1,\), \(2,\)\]; they must"),
    "None": (lambda x: np.array([x[0], None]), "^tapegrad.*None"),
    "text": (lambda x: np.array([x[0], "a"]), "^tapegrad.numpy: a list holds .* of type str; an"),
    "nditer": (lambda x: list(np.nditer(x)), r"^tapegrad.numpy.nditer: .*use np.ndenumerate"),
    "nditer of two": (lambda x: list(np.nditer([X, x])), r"^tapegrad.numpy.nditer: "),
    "broadcast": (lambda x: np.broadcast(x, 1.0), r"^tapegrad.numpy.broadcast: .*broadcast_arrays"),
    "frombuffer": (lambda x: np.frombuffer(x), r"^tapegrad.numpy.frombuffer: .*use np.asarray"),
    "a fraction": (
        lambda x: np.log([x[0], Fraction(1, 2)]),
        "^tapegrad.numpy: .* Fraction",
    ),
    "no copy": (lambda x: np.array([x[0]], copy=False), "Unable to avoid copy"),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    f, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=text):
        tg.grad(lambda x: np.sum(f(x)))(X)


def test_infinite_values_are_found_by_programs():
    f = tg.compile(lambda x: np.sum(np.asarray_chkfinite(x) ** 2))
    close(f.grad(X), 2 * X)
    with pytest.raises(ValueError, match="array must not contain infs or NaNs"):
        f.grad(X * numpy.inf)


def test_sizes_are_guards():
    both(lambda x: np.sum(np.zeros(np.int64(x[0] * 2.0)) + x[1]), X, X + 1.0)
    both(lambda x: np.sum(np.full(np.argmax(x) + 1, x[1])), X, X[[2, 0, 1]])


def test_no_user_code_is_called_twice():
    calls = []

    def one(row):
        calls.append(len(row))
        return row.sum()

    assert np.apply_along_axis(one, 0, [[1.0, 2.0], [3.0, 4.0]]).tolist() == [4.0, 6.0]
    assert calls == [2, 2]


def test_an_import_of_tapegrad_does_not_import_it():
    code = "import sys, tapegrad; print('tapegrad.numpy' in sys.modules); tapegrad.numpy.zeros(1)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False"]


def modules():
    names = sorted({*np.__dict__, *dir(np)})
    found = [getattr(np, name) for name in names if name in np._OURS] + [np]
    return [module for module in found if module.__name__.startswith("tapegrad")]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    """Of the functions that are written there: pytest would take NumPy's too."""
    own = [
        function
        for function in vars(module).values()
        if inspect.isfunction(function) and function.__globals__ is vars(module)
        if not hasattr(function, "__wrapped__")
    ]
    finder, runner = (
        doctest.DocTestFinder(recurse=False),
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE),
    )
    for one in (module, *own):
        for test in finder.find(one, getattr(one, "__name__", None), globs=dict(vars(module))):
            runner.run(test)
    assert not runner.failures
