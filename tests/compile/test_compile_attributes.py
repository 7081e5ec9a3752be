"""Compiled methods: attributes that they read are arguments, or they run eagerly."""

import copy
import dataclasses
import functools
import pickle

import numpy as np
import pytest
from compiled import same

import tapegrad as tg

X = np.array([0.3, -0.7, 1.1])


class Model:
    scale = 2.0

    def __init__(self):
        self.weights, self.rate, self.count = np.array([1.0, 2.0, 3.0]), 0.5, 3
        self.pair, self.unread = [1.0, 2.0], object()

    @property
    def squared(self):
        return self.rate**2

    def plain(self, x, y=1.0):
        s = 0.0
        for k in range(self.count):
            s = s + np.sin(x[k] * self.weights[k]) * self.squared * self.scale
        return s * y * self.pair[1]

    loss = tg.compile(plain)


def check_model(m, x=X):
    same(m.loss(x), m.plain(x), 1e-13)
    same(m.loss.grad(x, 2.0), tg.grad(m.plain)(x, 2.0))
    same(tg.grad(m.loss, 1)(x, 2.0), tg.grad(m.plain, 1)(x, 2.0))
    same(m.loss.hessian(x), tg.hessian(m.plain)(x))
    same(tg.hvp(m.loss)(x, X), tg.hvp(m.plain)(x, X))
    same(tg.jvp(m.loss, (x,), (X,)), tg.jvp(m.plain, (x,), (X,)))
    same(m.loss.vjp(x)[1](2.0), tg.vjp(m.plain, x)[1](2.0))
    same(tg.grad(lambda x: m.loss(x * 2))(x), tg.grad(lambda x: m.plain(x * 2))(x))


def test_attributes_that_a_method_reads_are_arguments():
    m = Model()
    for _ in range(3):
        check_model(m)
    m.rate = 0.7
    check_model(m)
    m.weights[1] = 5.0
    m.pair[1] = 7.0
    check_model(m)
    m.count = 2
    check_model(m)
    m.weights = np.arange(4.0)
    check_model(m)
    Model.scale = 3.0
    check_model(m)
    Model.scale = 2.0
    m.scale = 4.0  # of the instance now
    check_model(m)
    other = Model()
    check_model(other, 2 * X)
    assert m.loss._programs.reason is None and Model.loss._method is m.loss._programs
    assert "Model object" in repr(m.loss) and "plain" in m.loss.explain()
    m.loss.clear()
    check_model(m)
    with pytest.raises(pickle.PicklingError, match="pickle its instance"):
        pickle.dumps(m.loss)


def test_a_method_that_was_bound_before():
    m = Model()
    c = tg.compile(m.plain)
    for rate in (0.5, 0.5, 0.5, 0.7, 0.1):
        m.rate = rate
        same(c(X), m.plain(X), 1e-13)
        same(c.grad(X), tg.grad(m.plain)(X))


class Writing:
    def __init__(self):
        self.count, self.list, self.buffer, self.inner = 0, [1.0], np.zeros(3), Model()

    def counts(self, x):
        self.count += 1
        return np.sum(x) * self.count

    def appends(self, x):
        self.list.append(2.0)
        return np.sum(x) * len(self.list)

    def writes(self, x):
        self.buffer[0] = self.buffer[0] + 1.0
        return np.sum(x * self.buffer)

    def writes_nothing_new(self, x):
        self.buffer[0] = self.buffer[1]
        return np.sum(x * self.buffer)

    def reads_an_object(self, x):
        return np.sum(x) * self.inner.rate

    def reads_all(self, x):
        return np.sum(x) * len(self.__dict__)


@pytest.mark.parametrize("name", [name for name in vars(Writing) if not name.startswith("_")])
def test_methods_that_have_no_program(name):
    one, other = Writing(), Writing()
    c, method = tg.compile(getattr(one, name)), getattr(other, name)
    with pytest.warns(RuntimeWarning, match="runs eagerly, without a program"):
        same(c(X), method(X))
    for k in range(4):
        one.inner.rate = other.inner.rate = 0.5 * k
        one.buffer[1] = other.buffer[1] = k
        same(c(X * k), method(X * k))
        same(c.grad(X), tg.grad(method)(X))
        same(c.hessian(X), tg.hessian(method)(X))
    assert one.count == other.count and one.list == other.list
    same(one.buffer, other.buffer)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: float
    b: np.ndarray

    @tg.compile
    def f(self, x):
        return np.sum(self.b * x**2) * self.a


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a

    @tg.compile(argnums=-1)
    def f(self, x, y):
        return self.a * x * y**2


def test_instances_of_other_kinds():
    for k in range(4):
        same(Frozen(k + 1.0, X * k).f(X), np.sum(X * k * X**2) * (k + 1.0))
        same(Frozen(k + 1.0, X * k).f.grad(X), 2 * X * k * X * (k + 1.0))
        assert Slotted(k + 1.0).f(2.0, 3.0) == 18.0 * (k + 1.0)
        assert Slotted(k + 1.0).f.grad(2.0, 3.0) == 12.0 * (k + 1.0)
    assert len(Frozen.f._method.compiled) == len(Slotted.f._method.compiled) == 2


def test_copies_belong_to_the_copy_of_the_instance():
    m = Model()
    made = copy.deepcopy({"m": m, "c": tg.compile(m.plain)})
    made["m"].rate = 0.9
    same(made["c"](X), made["m"].plain(X), 1e-13)
    same(copy.copy(m.loss)(X), m.plain(X), 1e-13)
    assert made["c"].__self__ is made["m"]


# --- with arguments by name ---------------------------------------------------------------------


class Steps:
    def __init__(self):
        self.scale, self.weights = 2.0, np.array([1.0, 2.0, 3.0])

    def plain(self, x, y):
        total = 0.0
        for k in range(len(x)):
            total = total + (self.scale * x[k] ** 2 if x[k] > 0 else y * y * x[k] * self.weights[k])
        return total

    loss = tg.compile(plain, argnames=("y", "x"))

    def __call__(self, x, y):
        return self.plain(x, y) * self.scale


def check_by_name(c, f, m, y):
    by_position, x, along = lambda y, x: f(x, y), X * np.cos(y), (1.0, X)
    same(c(x, y), f(x, y))
    same(c.value_and_grad(x, y=y), tg.value_and_grad(by_position, (0, 1))(y, x))
    same(tg.grad(c, argnames="y")(x, y=y), tg.grad(f, 1)(x, y))
    same(tg.grad(lambda x: c(x, y))(x), tg.grad(f)(x, y))
    same(c.hessian(x, y), tg.hessian(by_position, (0, 1))(y, x))
    same(c.jacobian(x, y), tg.jacobian(by_position, (0, 1))(y, x))
    same(c.hvp(along, x, y=y), tg.hvp(lambda both: by_position(*both))((y, x), along))
    same(c.jvp(along, x, y=y), tg.jvp(by_position, (y, x), along))
    values, (_, found) = c.map(np.stack([x, -x]), y, in_axes={"y": None})
    same(values, np.array([f(x, y), f(-x, y)]))
    same(found, np.stack([tg.grad(f)(x, y), tg.grad(f)(-x, y)]))
    (_, back), expected = c.vjp(x, y), tg.vjp(by_position, y, x)[1](2.0)
    m.scale += 1.0  # it does not change what has been called
    same(back(2.0), expected)


FORMS = {
    "a method": lambda m: (tg.compile(m.plain, argnames=("y", "x")), m.plain),
    "decorated": lambda m: (m.loss, m.plain),
    "an object": lambda m: (tg.compile(m, argnames=("y", "x")), m),
}


@pytest.mark.parametrize("form", FORMS)
def test_attributes_of_methods_whose_arguments_are_named(form):
    m = Steps()
    c, f = FORMS[form](m)
    for k in range(4):
        m.weights[1] = 5.0 - k
        check_by_name(c, f, m, 0.5 + k)
    assert "by y, x" in repr(c) and c._compiled._programs.reason is None
    own = copy.deepcopy(c)
    m.scale = 9.0
    same(copy.copy(c)(X, 2.0), f(X, 2.0))
    assert own(X, 2.0) != c(X, 2.0)
    with pytest.raises(pickle.PicklingError, match="pickle its instance"):
        pickle.dumps(c)


PARTIALS = {
    "a keyword": lambda m: functools.partial(m.plain, y=2.0),
    "an array": lambda m: functools.partial(m.plain, y=np.array(2.0)),
    "an object": lambda m: functools.partial(m, y=-1.0),
}


@pytest.mark.parametrize("named", [{}, {"argnames": "x"}], ids=["argnums", "argnames"])
@pytest.mark.parametrize("kind", PARTIALS)
def test_attributes_of_methods_with_some_arguments(kind, named):
    m = Steps()
    f = PARTIALS[kind](m)
    c = tg.compile(f, **named)
    for k in range(6):
        m.scale, m.weights[0] = 2.0 + k, 1.0 - k
        x = X * np.cos(k)
        same(c(x), f(x))
        same(c.value_and_grad(x), tg.value_and_grad(f)(x))
        same(c.hessian(x), tg.hessian(f)(x))


class Cubes:
    """The sum of cubes by a method that changes nothing, and by one that does."""

    def kept(self, x):
        return np.sum(x**3)

    def changing(self, x):
        self.squares = x**2
        return np.sum(self.squares * x)

    __call__ = kept


@pytest.mark.filterwarnings("ignore:tapegrad.compile. changing changes squares")
@pytest.mark.parametrize("f", [Cubes().kept, Cubes().changing, Cubes()])
def test_compiled_gradients_of_methods(f):
    """They are gradients at each call, and for the transforms around them."""
    x, ones = np.array([1.0, -2.0, 0.5]), np.ones(3)
    gradient, both = tg.compile(tg.grad(f)), tg.compile(tg.value_and_grad(f))
    for _ in range(3):
        np.testing.assert_allclose(gradient(x), 3 * x**2)
        value, slope = both(x)
        assert value == np.sum(x**3)
        np.testing.assert_allclose(slope, 3 * x**2)
        np.testing.assert_allclose(tg.jacobian(gradient)(x), np.diag(6 * x))
        np.testing.assert_allclose(tg.jvp(gradient, (x,), (ones,))[1], 6 * x)
        np.testing.assert_allclose(tg.grad(lambda y: np.sum(gradient(y)))(x), 6 * x)
        np.testing.assert_allclose(gradient.hessian(x), np.diag(6 * x))
