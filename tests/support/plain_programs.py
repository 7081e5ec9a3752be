"""Functions as people write them with NumPy, SciPy and math, for tests that enter them.

`PROGRAMS` has for each name a function of an array of two numbers, and what changes before its
second and third call.
"""

# ruff: noqa: F403, F405
import cmath
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import math as m
import operator
import types
from math import *
from math import exp as natural

import numpy
import numpy as np
import numpy.linalg as la
import scipy.linalg
import scipy.special as special
from numpy import array, empty, zeros
from numpy.linalg import norm

PROGRAMS = {}


def program(f=None, *, then=()):
    """Register a function; `then` are called before the second call, and before the third."""
    if f is None:
        return functools.partial(program, then=then)
    PROGRAMS[f.__name__] = f, then
    return f


# --- names ----------------------------------------------------------------------------------------


@program
def a_filled_array(x):
    y = np.zeros(4)
    y[0], y[1:3] = x[0] * x[1], x
    for k in range(3, 4):
        y[k] = y[k - 1] ** 2 + math.sin(x[0])
    return np.sum(y * y)


@program
def names_of_modules_and_of_functions(x):
    y, z = zeros(2), empty(2)
    y[0] = natural(x[0]) + m.cos(x[1])
    z[:] = numpy.array([x[1], 1.0])
    return norm(y + z) + la.norm(z) * la.det(array([[x[0], 1.0], [2.0, x[1]]]))


@program
def a_star_import(x):
    return sin(x[0]) * atan2(x[1], 2.0) + hypot(x[0], x[1]) + pi * floor(x[0])


@program
def imports_in_the_body(x):
    import math as own
    from math import sinh, tanh

    import numpy as local
    import scipy.special
    import scipy.special as sp

    y = local.zeros(2)
    y[0] = sinh(x[0]) + own.exp(x[1])
    y[1] = tanh(x[1]) + sp.gammaln(3.0 + x[0] ** 2) + scipy.special.erf(x[1])
    return y.sum()


@program
def functions_in_variables(x):
    make, s = np.zeros, math.sin
    y = make(2)
    y[1] = s(x[0]) + x[1]
    return np.sum(y**2)


@program
def one_of_two_functions(x):
    chosen = math.sin if x[0] > 0 else math.cos
    return chosen(x[1]) + (math.exp if x[1] > 0 else math.atan)(x[0])


@program
def functions_that_call_functions(x):
    return (
        sum(map(math.exp, x))
        + functools.reduce(np.add, map(math.sin, x))
        + np.vectorize(math.tanh)(x).sum()
        + max(x, key=math.cos)
        + functools.partial(math.pow, x[0] ** 2 + 1.0)(3.0)
    )


@program
def comprehensions_and_generators(x):
    y = np.array([math.sqrt(1.0 + t * t) for t in x])
    return sum(math.sin(t) for t in x) + y @ np.array([*(math.cos(t) for t in x)])


@program
def arguments_by_star_and_keyword(x):
    pair, named = (x[0], x[1]), {"axis": 0}
    return math.hypot(*pair) + np.sum(np.array([x, x * x]), **named)[0] + math.dist(x, [1.0, 2.0])


@program
def indexing_objects(x):
    return np.sum(np.r_[x, 1.0, x[::-1]] ** 2) + np.sum(np.c_[x, x * x])


@program
def a_module_as_argument(x):
    def total(values, xp):
        out = xp.zeros(2)
        out[0] = xp.sum(values)
        return out[0]

    return total(x, np) * total(x * x, xp=numpy)


@program
def constants_dtypes_and_random_numbers(x):
    noise = np.random.default_rng(0).normal(size=2)
    y = np.zeros(2, dtype=np.float64)
    y[:] = x * np.pi + np.e * noise
    return np.sum(y) + float(np.finfo(np.float64).eps) * math.inf**-1


# --- identities -----------------------------------------------------------------------------------

ACTIVATION, SLOPES = np.tanh, {np.sin: np.cos, np.exp: np.exp}
NAMED = {"sin": np.sin, "tanh": np.tanh, "exp": math.exp}


@program
def a_function_is_compared(x):
    factor = 3.0 if ACTIVATION is np.tanh else 5.0
    y = zeros(1)
    y[0] = factor * ACTIVATION(x[0])
    return y[0] + (x[1] if np.sin in (np.sin, np.cos) else 0.0)


@program
def functions_as_keys(x):
    return SLOPES[np.sin](x[0]) * math.exp(x[1]) + (2.0 if SLOPES.get(np.exp) is np.exp else 0.0)


@program
def functions_in_a_table(x):
    return NAMED["sin"](x[0]) + NAMED["tanh"](x[1])


@program
def a_helper_that_compares(x):
    def is_sine(f):
        return f is np.sin

    return math.exp(x[0]) * (2.0 if is_sine(np.sin) else 3.0) + math.cos(x[1])


@program
def names_of_functions(x):
    return math.sin(x[0]) * len(np.zeros.__name__) + len(math.__name__) * x[1]


# --- state ----------------------------------------------------------------------------------------

GAIN, COUNT, WEIGHTS = 2.0, 0, [1.0, 2.0]


def set_gain(value):
    global GAIN
    GAIN = value


@program(then=(lambda: set_gain(-1.0), lambda: set_gain(0.5)))
def a_global_that_changes(x):
    return GAIN * math.sin(x[0]) + math.exp(x[1])


@program(then=(lambda: WEIGHTS.append(3.0), lambda: WEIGHTS.__setitem__(0, -2.0)))
def a_list_that_changes(x):
    y = np.zeros(len(WEIGHTS))
    y[0] = math.sin(x[0])
    y[1:] = x[1]
    return np.dot(y, WEIGHTS)


def _square(x):
    return math.pow(abs(x) + 1.0, 2.0)


def _cube(x):
    return math.pow(abs(x) + 1.0, 3.0)


power = _square


def set_power(f):
    global power
    power = f


@program(then=(lambda: set_power(_cube), lambda: set_power(_square)))
def a_helper_that_is_replaced(x):
    return power(x[0]) + power(x[1])


@program
def a_counter_of_its_own(x):
    count = 0

    def add(value):
        nonlocal count
        count += 1
        return math.sin(value) * count

    return add(x[0]) + add(x[1])


# --- classes --------------------------------------------------------------------------------------


class Layer:
    """A class with every kind of method."""

    kinds = {"sin": lambda self, x: math.sin(x), "cos": lambda self, x: math.cos(x)}

    def __init__(self, size):
        self.weights, self.calls = np.ones(size), 0

    @property
    def scale(self):
        return math.exp(-1.0)

    @functools.cached_property
    def grid(self):
        return np.linspace(0.0, 1.0, len(self.weights))

    @staticmethod
    def bend(x):
        return math.atan(x)

    @classmethod
    def made(cls, size):
        return cls(size)

    def __call__(self, x):
        self.calls += 1
        y = np.zeros(len(self.weights))
        y[:] = self.weights * x
        return self.scale * np.sum(y * self.grid) + self.bend(x[0]) + self.kinds["sin"](self, x[1])


class Deeper(Layer):
    """A class that calls its base."""

    def __call__(self, x):
        y = np.array([super().__call__(x), x[1]])
        return y[0] * y[1]


LAYER, DEEPER = Layer.made(2), Deeper(2)


def set_weights(first):
    LAYER.weights = np.array([first, 1.0])


@program(then=(lambda: set_weights(4.0), lambda: set_weights(-3.0)))
def an_instance(x):
    return LAYER(x)


@program
def a_subclass(x):
    return DEEPER(x)


@dataclasses.dataclass
class Parameters:
    """A dataclass made inside."""

    rate: float
    shift: object = None

    def at(self, t):
        out = np.empty(1)
        out[0] = math.exp(-self.rate * t) + self.shift
        return out[0]


@program
def a_dataclass(x):
    return Parameters(x[0], x[1]).at(0.5)


class Color(enum.Enum):
    """An enumeration with a method."""

    RED = 1

    def value_at(self, x):
        return math.sin(x) * self.value


Point = collections.namedtuple("Point", "x y")


@program
def an_enum_and_a_named_tuple(x):
    at = Point(math.sin(x[0]), np.array([x[1]])[0])
    return Color.RED.value_at(at.x) + at.y**2


def logged(f):
    """A decorator."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        return f(*args, **kwargs) * 1.0

    return call


@logged
def _decorated(x):
    return math.sin(x) + np.array([x, 1.0])[0]


@program
def a_decorated_helper(x):
    return _decorated(x[0]) * _decorated(x[1])


@functools.lru_cache
def _nodes(count):
    return np.polynomial.legendre.leggauss(count)


@program
def a_memoized_helper(x):
    nodes, weights = _nodes(3)
    return np.sum(weights * np.exp(nodes * x[0])) * math.cos(x[1])


# --- types ----------------------------------------------------------------------------------------


@functools.singledispatch
def _kind(x):
    return 7.0


@_kind.register
def _(x: np.ndarray):
    return 1.0


@_kind.register
def _(x: float):
    return 2.0


@program
def tests_of_types(x):
    total = 0.0
    if isinstance(x, np.ndarray) and isinstance(x[0], (int, float)):
        total = total + math.sin(x[0])
    if type(x) is np.ndarray:
        total = total + x[1]
    return total * (3.0 if isinstance(np.zeros(2), np.ndarray) else 1.0)


@program
def a_match_statement(x):
    match x:
        case np.ndarray():
            found = x[0] * math.exp(x[1])
        case _:
            found = 0.0
    match x[0]:
        case float():
            found = found * 2.0
        case _:
            found = 0.0
    return found


@program
def single_dispatch(x):
    return _kind(x) * math.sin(x[0]) + _kind(x[0]) * x[1]


@program
def classes_of_objects(x):
    return math.exp(x[0]) * (2.0 if x.__class__ is np.ndarray else 5.0) + math.sin(x[1])


# --- control --------------------------------------------------------------------------------------


@program
def loops_and_errors(x):
    y, total = np.zeros(3), 0.0
    for k in range(10):
        try:
            y[k] = math.log(x[0] + 3.0) * k
        except IndexError:
            break
        finally:
            total = total + 1.0
    with contextlib.suppress(ZeroDivisionError):
        total = total + math.sqrt(1.0 + x[1] ** 2)
    while total < 10.0:
        total = total * 2.0
    return np.sum(y) + total


@program
def branches(x):
    y = np.zeros(2)
    y[0] = math.sin(x[0]) if x[1] > 0 else math.cos(x[0]) * 2.0
    y[1] = x[0] and x[1] or 1.0
    return y[0] * y[1]


@program
def a_class_in_the_body(x):
    class Local:
        rate = math.exp(-2.0)

        def at(self, t):
            return math.sin(t) * self.rate

    return Local().at(x[0]) + Local().at(x[1])


@program
def a_generator(x):
    def values():
        state = np.zeros(1)
        for t in x:
            state[0] = state[0] + math.sin(t)
            yield state[0]

    return sum(itertools.accumulate(values(), operator.mul))


@program
def a_recursion(x):
    def at(k):
        return math.sin(x[0]) if k == 0 else at(k - 1) * math.cos(x[1])

    return at(3)


@program
def libraries(x):
    a = np.array([[2.0 + x[0] ** 2, x[1]], [x[1], 3.0]])
    return (
        scipy.linalg.solve(a, np.ones(2)).sum()
        + special.gammaln(2.0 + x[0] ** 2)
        + np.linalg.slogdet(a)[1]
        + np.fft.fft(x).real.sum()
        + np.interp(math.tanh(x[0]), [-1.0, 0.0, 1.0], [0.0, x[1], 2.0])
    )


SPACE = types.SimpleNamespace(rate=2.0, act=lambda v: math.tanh(v))


@program(then=(lambda: setattr(SPACE, "rate", 3.0), lambda: setattr(SPACE, "rate", -1.0)))
def a_namespace(x):
    return SPACE.rate * SPACE.act(x[0]) + x[1]


@program
def complex_numbers(x):
    z = np.zeros(1, complex)
    z[0] = x[0] + 1j * x[1]
    return np.abs(np.exp(z[0])) ** 2 + cmath.pi
