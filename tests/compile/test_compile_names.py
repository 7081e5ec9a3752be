"""`tg.compile`: names that the function reads from outside and that become other objects."""

import copy
import importlib
import pickle
import sys
import threading
import types
import warnings

import hypothesis
import numpy as np
import pytest
from assumed import needs
from compiled import counts, same
from extent import some

import tapegrad as tg
from tapegrad._core.tensor.dependencies import Snapshot
from tapegrad._program.dispatch.names_read import names_read

X = np.array([0.7, -1.2, 1.9])
V = np.array([1.0, -2.0, 0.5])
FACTOR = 2.0
SECOND = 0.5


def helper(x):
    return FACTOR * x


def of_global(x):
    return np.sum(np.sin(FACTOR * x) ** 2)


def of_helper(x):
    return np.sum(np.sin(helper(x)) ** 2)


def inner(x):
    return np.sum(np.sin(FACTOR * x) ** 2)


def of_cubes(x):
    return np.sum(x**3)


def other_helper(x):
    return 5.0 * x - 1.0


compiled_inner = tg.compile(inner)


def of_compiled(x):
    return 3.0 * compiled_inner(x)


def of_transform(x):
    return np.sum(tg.grad(inner)(x) ** 2)


class Scale:
    def __call__(self, x):
        return helper(x)

    @staticmethod
    def fixed(x):
        return FACTOR * x

    @property
    def factor(self):
        return FACTOR


class Inherits(Scale):
    pass


scale = Inherits()


def of_object(x):
    return np.sum(np.sin(scale(x)) ** 2)


def of_static(x):
    return np.sum(np.sin(scale.fixed(x)) ** 2)


def of_property(x):
    return np.sum(np.sin(scale.factor * x) ** 2)


def of_comprehension(x):
    return sum([np.sin(FACTOR * x[k]) ** 2 for k in range(3)])


def of_inner_function(x):
    def inside(y):
        return np.sin(FACTOR * y) ** 2

    return np.sum(inside(x))


def of_default(x, factor=FACTOR):
    return np.sum(np.sin(factor * x) ** 2)


def of_keyword_default(x, *, factor=FACTOR):
    return np.sum(np.sin(factor * x) ** 2)


def of_branch(x):
    return np.sum(np.sin(FACTOR * x) ** 2) if x[0] > 0 else np.sum(x**2) * SECOND


module = types.ModuleType("of_a_user")
sys.modules[module.__name__] = module
exec("FACTOR = 2.0\ndef helper(x):\n    return FACTOR * x\n", vars(module))


def of_module(x):
    return np.sum(np.sin(module.FACTOR * x) ** 2)


def of_function_of_module(x):
    return np.sum(np.sin(module.helper(x)) ** 2)


class Settings:
    bias = 0.25

    def __init__(self):
        self.factor = 2.0
        self.inner = types.SimpleNamespace(factor=2.0)

    def scaled(self, x):
        return self.factor * x


class Slotted:
    __slots__ = ("factor",)

    def __init__(self):
        self.factor = 2.0


settings, slotted = Settings(), Slotted()
table = {"factor": 2.0, "others": [1.0, 2.0]}
weights = [2.0, 0.5, 1.0]
chosen = {2.0}
small = np.array([2.0, 0.5, 1.0])
powers = ([2.0, 1.0], "powers")


def of_attribute(x):
    return np.sum(np.sin(settings.factor * x) ** 2)


def of_attribute_of_attribute(x):
    return np.sum(np.sin(settings.inner.factor * x) ** 2)


def of_attribute_of_class(x):
    return np.sum(np.sin(settings.bias * x) ** 2)


def of_attribute_in_method(x):
    return np.sum(np.sin(settings.scaled(x)) ** 2)


def of_slot(x):
    return np.sum(np.sin(slotted.factor * x) ** 2)


def of_item(x):
    return np.sum(np.sin(table["factor"] * x) ** 2)


def of_item_of_item(x):
    return np.sum(np.sin(table["others"][1] * x) ** 2)


def of_list(x):
    return sum([np.sin(w * x[k]) ** 2 for k, w in enumerate(weights)])


def of_list_in_tuple(x):
    return np.sum(np.sin(powers[0][0] * x) ** 2)


def of_set(x):
    return np.sum(np.sin(sum(chosen) * x) ** 2)


def of_array(x):
    return np.sum(np.sin(small * x) ** 2)


def of_number_in_array(x):
    return np.sum(np.sin(float(small[0]) * x) ** 2)


def of_list_as_default(x, w=weights):
    return np.sum(np.sin(w[0] * x) ** 2)


def of_import(x):
    from of_a_user import FACTOR

    return np.sum(np.sin(FACTOR * x) ** 2)


def of_import_of_module(x):
    import of_a_user

    return np.sum(np.sin(of_a_user.FACTOR * x) ** 2)


def of_variable():
    factor = 2.0

    def f(x):
        return np.sum(np.sin(factor * x) ** 2)

    def change():
        nonlocal factor
        factor = 3.0

    return f, change


def _set(owner, name, value):
    return lambda patch: patch.setattr(owner, name, value)


def _global(name, value):
    return lambda patch: patch.setitem(globals(), name, value)


def _item(owner, key, value):
    return lambda patch: patch.setitem(owner, key, value)


class Elements:
    """A list or an array as something whose items pytest can set and restore."""

    def __init__(self, array):
        self.array = array

    def get(self, k, default):
        return float(self.array[k])

    def __setitem__(self, k, value):
        self.array[k] = value


#: What changes, for each function.
CHANGES = {
    "a global": (of_global, _global("FACTOR", 3.0)),
    "a global, in a function": (of_helper, _global("FACTOR", 3.0)),
    "another function": (of_helper, _global("helper", other_helper)),
    "its code": (of_helper, _set(helper, "__code__", other_helper.__code__)),
    "the code of the function": (of_global, _set(of_global, "__code__", of_cubes.__code__)),
    "a compiled function": (of_compiled, _global("compiled_inner", np.sum)),
    "a global, in a compiled function": (of_compiled, _global("FACTOR", 3.0)),
    "a global, in a transform": (of_transform, _global("FACTOR", 3.0)),
    "a global, in a method": (of_object, _global("FACTOR", 3.0)),
    "another object": (of_object, _global("scale", other_helper)),
    "a global, in a static method": (of_static, _global("FACTOR", 3.0)),
    "a global, in a property": (of_property, _global("FACTOR", 3.0)),
    "a global, in a comprehension": (of_comprehension, _global("FACTOR", 3.0)),
    "a global, in an inner function": (of_inner_function, _global("FACTOR", 3.0)),
    "a default": (of_default, _set(of_default, "__defaults__", (3.0,))),
    "a keyword's default": (
        of_keyword_default,
        _set(of_keyword_default, "__kwdefaults__", {"factor": 3.0}),
    ),
    "a module's": (of_module, _set(module, "FACTOR", 3.0)),
    "a global of a module's function": (of_function_of_module, _set(module, "FACTOR", 3.0)),
    "a module's function": (of_function_of_module, _set(module, "helper", other_helper)),
    "another module": (of_module, _global("module", types.SimpleNamespace(FACTOR=3.0))),
    "beside a branch": (of_branch, _global("FACTOR", 3.0)),
    "an attribute": (of_attribute, _set(settings, "factor", 3.0)),
    "an attribute's attribute": (of_attribute_of_attribute, _set(settings.inner, "factor", 3.0)),
    "another attribute": (
        of_attribute_of_attribute,
        _set(settings, "inner", types.SimpleNamespace(factor=3.0)),
    ),
    "a class attribute": (of_attribute_of_class, _set(Settings, "bias", 3.0)),
    "an attribute in a method": (of_attribute_in_method, _set(settings, "factor", 3.0)),
    "another method": (
        of_attribute_in_method,
        _set(Settings, "scaled", lambda self, x: other_helper(x)),
    ),
    "an inherited method": (of_static, _set(Scale, "fixed", staticmethod(other_helper))),
    "a slot": (of_slot, _set(slotted, "factor", 3.0)),
    "an item": (of_item, _item(table, "factor", 3.0)),
    "an item's item": (of_item_of_item, _item(Elements(table["others"]), 1, 3.0)),
    "an item of a list": (of_list, _item(Elements(weights), 0, 3.0)),
    "an item of a list in a tuple": (of_list_in_tuple, _item(Elements(powers[0]), 0, 3.0)),
    "an item of a default": (of_list_as_default, _item(Elements(weights), 0, 3.0)),
    "another set": (of_set, _global("chosen", {3.0})),
    "an element of an array": (of_array, _item(Elements(small), 0, 3.0)),
    "a number in an array": (of_number_in_array, _item(Elements(small), 0, 3.0)),
    "an imported name": (of_import, _set(module, "FACTOR", 3.0)),
    "an imported module's": (of_import_of_module, _set(module, "FACTOR", 3.0)),
    "a builtin": (of_comprehension, _global("sum", lambda terms: terms[0] * 7.0)),
}

#: Results of a compiled function `c`, or of `f`, where it is none.
USES = {
    "value": (lambda c: c(X), lambda f: f(X)),
    "grad": (lambda c: c.grad(X), lambda f: tg.grad(f)(X)),
    "value_and_grad": (lambda c: c.value_and_grad(X), lambda f: tg.value_and_grad(f)(X)),
    "out": (lambda c: c.grad(X, out=np.empty(3)), lambda f: tg.grad(f)(X)),
    "hessian": (lambda c: c.hessian(X), lambda f: tg.hessian(f)(X)),
    "jacobian": (lambda c: c.jacobian(X), lambda f: tg.jacobian(f)(X)),
    "hvp": (lambda c: c.hvp(X, V), lambda f: tg.hvp(f)(X, V)),
    "jvp": (lambda c: c.jvp((X,), (V,)), lambda f: tg.jvp(f, (X,), (V,))),
    "vjp": (lambda c: c.vjp(X)[1](2.0), lambda f: tg.vjp(f, X)[1](2.0)),
    "map": (lambda c: c.map(np.stack([X, V]))[1][0], lambda f: tg.grad(f)(X)),
    "sum": (lambda c: c.sum(np.stack([X, X]))[0], lambda f: 2.0 * f(X)),
    "tg.grad": (lambda c: tg.grad(c)(X), lambda f: tg.grad(f)(X)),
    "by name": (
        lambda c: tg.grad(c, argnames="x")(X),
        lambda f: tg.grad(f)(X),
    ),
    "in a recording": (
        lambda c: tg.grad(lambda x: c(x) * x[0])(X),
        lambda f: tg.grad(lambda x: f(x) * x[0])(X),
    ),
}


def assert_same(found, expected):
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def first_of(found):
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize(
    ("what", "use"), [(what, use) for k, what in enumerate(CHANGES) for use in some(USES, k, 5)]
)
def test_a_name_that_becomes_another_object_is_noticed(what, use, monkeypatch):
    f, change = CHANGES[what]
    of_compiled_function, eagerly = USES[use]
    c = tg.compile(f)
    before = eagerly(f)
    for _ in range(3):
        assert_same(of_compiled_function(c), before)
    with monkeypatch.context() as patch:
        change(patch)
        after = eagerly(f)
        assert not np.allclose(first_of(after), first_of(before))
        for _ in range(3):
            assert_same(of_compiled_function(c), after)
    for _ in range(3):
        assert_same(of_compiled_function(c), before)


@pytest.mark.parametrize("native", [True, False])
def test_a_variable_of_an_enclosing_function_is_checked(native):
    f, change = of_variable()
    c = tg.compile(f, native=native)
    for _ in range(3):
        same(c.grad(X), tg.grad(f)(X))
    c.wait()
    same(c.grad(X), tg.grad(f)(X))
    change()
    for _ in range(3):
        same(c.grad(X), tg.grad(f)(X))
        same(c.hessian(X), tg.hessian(f)(X), 1e-12)


@needs("numba-reader")
def test_a_graph_is_read_again(monkeypatch):
    c = tg.compile(of_branch)
    for x in (X, -X, 2 * X, -2 * X):
        same(c.grad(x), tg.grad(of_branch)(x))
    assert "1 graph" in repr(c)
    for name, value in (("FACTOR", 3.0), ("SECOND", 4.0)):
        monkeypatch.setitem(globals(), name, value)
        for x in (X, -X, 2 * X, -2 * X):
            same(c.grad(x), tg.grad(of_branch)(x))
            same(c.hessian(x), tg.hessian(of_branch)(x), 1e-12)
    monkeypatch.setattr(of_branch, "__code__", of_cubes.__code__)
    for x in (X, -X, 2 * X, -2 * X):
        same(c.grad(x), 3.0 * x**2)


def test_methods_are_followed(monkeypatch):
    class Model:
        def __init__(self):
            self.weight = 1.5

        @tg.compile
        def loss(self, x):
            return np.sum(helper(x) ** 2) * self.weight

    model = Model()
    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(3):
            same(model.loss.grad(X), 3.0 * factor**2 * X)


def test_a_deleted_name_raises_as_in_the_function(monkeypatch):
    c = tg.compile(of_global)
    for _ in range(3):
        c(X)
    monkeypatch.delitem(globals(), "FACTOR")
    with pytest.raises(NameError, match="FACTOR"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        c(X)


def test_items_of_a_set_are_checked():
    held = {2.0}
    c = tg.compile(lambda x: x * sum(held))
    for _ in range(3):
        assert c.grad(3.0) == 2.0
    held.add(5.0)
    for _ in range(3):
        assert c.grad(3.0) == 7.0


@counts
def test_what_the_function_changes_itself_is_not_checked():
    log, counts, buffer, settings = [], {}, np.zeros(3), Settings()

    def f(x):
        log.append(1)
        counts["calls"] = counts.get("calls", 0) + 1
        buffer[0] += 1.0
        settings.factor += 1.0
        return x * x

    c = tg.compile(f)
    for _ in range(10):
        assert c.grad(3.0) == 6.0
    assert log == [1, 1]  # recorded, and compared
    assert counts["calls"] == buffer[0] == 2
    c(np.ones(3))
    for _ in range(4):
        assert c.grad(3.0) == 6.0
    assert len(log) == 3


def test_items_of_long_lists_are_not_checked():
    """As docs/limits_compiled.md says: comparing them would take longer than many functions."""
    long = [2.0] * 101
    c = tg.compile(lambda x: x * long[0])
    for _ in range(3):
        assert c(3.0) == 6.0
    long[0] = 5.0
    assert c(3.0) == 6.0


def test_objects_that_give_nothing_are_let_alone():
    class Proxy:
        @property
        def __dict__(self):
            raise RuntimeError("outside of a context")

        def __getattr__(self, name):
            raise RuntimeError("outside of a context")

    class Meta(type):
        def __getattr__(cls, name):
            raise RuntimeError("no such attribute")

    class Kind(metaclass=Meta):
        factor = 2.0

    held, proxy = Kind(), Proxy()
    f = lambda x: x * held.factor if proxy else x.missing
    c = tg.compile(f)
    for _ in range(3):
        assert c.grad(3.0) == 2.0
    Kind.factor = 7.0
    assert c.grad(3.0) == 7.0


def test_names_like_those_of_checks(monkeypatch):
    for name in ("tapegrad_value_0", "tapegrad_rest", "tapegrad_is", "_map"):
        space = {"__name__": "of_a_user", name: 2.0, "others": [1.0]}
        exec(f"def f(x):\n    return x * {name} * others[0]\n", space)
        c = tg.compile(space["f"])
        for value in (2.0, 3.0):
            space[name] = value
            for _ in range(3):
                assert c.grad(1.0) == value


def test_classes_as_attributes():
    """They are no descriptors, even if their instances are."""

    class Descriptor:
        factor = 2.0

        def __get__(self, instance, owner):
            return self

        def __set__(self, instance, value):
            raise AttributeError

    class Other:
        factor = 3.0

    class Kind:
        held = Descriptor

    one = Kind()
    for f in (lambda x: x * one.held.factor, lambda x: x * Kind.held.factor):
        Kind.held = Descriptor
        c = tg.compile(f)
        for held in (Descriptor, Other):
            Kind.held = held
            for _ in range(3):
                assert c.grad(1.0) == held.factor


def test_attributes_that_hide_those_of_classes():
    class Base:
        rate, table = 2.0, {"rate": 2.0}

        def scaled(self, x):
            return self.rate * x

        @classmethod
        def of_class(cls, x):
            return cls.rate * x

    class Kind(Base):
        pass

    one = Kind()
    uses = {
        "data": lambda x: one.rate * x,
        "items": lambda x: one.table["rate"] * x,
        "method": lambda x: one.scaled(x),
        "class": lambda x: Kind.rate * x,
        "class method": lambda x: one.of_class(x),
        "class method of a class": lambda x: Kind.of_class(x),
    }
    compiled = {name: tg.compile(f) for name, f in uses.items()}

    def check():
        for _ in range(3):
            for name, c in compiled.items():
                assert c.grad(3.0) == uses[name](1.0), name

    check()
    Base.rate = 3.0
    check()
    Kind.rate = 4.0
    check()
    one.rate = 5.0
    check()
    one.table = {"rate": 6.0}
    check()
    one.scaled = lambda x: 7.0 * x
    check()
    Kind.of_class = classmethod(lambda cls, x: 8.0 * x)
    check()
    del one.rate, one.table, one.scaled, Kind.rate, Kind.of_class
    check()


def test_no_more_than_100_items_are_compared():
    """The nearest come first."""
    records, rate = [{"weight": 2.0} for _ in range(60)], [3.0]
    f = lambda x: x * sum([one["weight"] for one in records]) * rate[0]
    checked = [one for one in names_read(f)._found if isinstance(one, Snapshot)]
    assert [one.owner for one in checked[:2]] == [rate, records]
    assert len(checked) == 2 + (100 - 4 - 60) // 4
    c = tg.compile(f)
    for _ in range(3):
        assert c(1.0) == 360.0
    rate[0] = 5.0
    assert c(1.0) == 600.0


def test_lists_of_tensors_are_compared_by_identity():
    """An == of tensors would be recorded."""
    held = [tg.tensor([1.0, 2.0]), tg.tensor([3.0, 4.0])]
    c = tg.compile(lambda x: np.sum(x * held[0]))
    x = np.array([1.0, 10.0])
    for _ in range(3):
        assert c(x) == 21.0
    held[0] = tg.tensor([1.0, 2.0]) * 2.0
    for _ in range(3):
        assert c(x) == 42.0
    outer = tg.compile(lambda x: c(x) * 2.0)
    for _ in range(3):
        assert outer(x) == 84.0
    held[0] = held[1]
    for _ in range(3):
        assert outer(x) == 86.0


@pytest.mark.parametrize("enter", [False, True])
def test_installed_packages_are_searched_for_what_is_entered(tmp_path, monkeypatch, enter):
    monkeypatch.setattr(tg.config, "enter", enter)
    name = f"installed_package_{enter}"
    folder = tmp_path / "site-packages" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("FACTOR = 2.0\n\n\ndef f(x):\n    return FACTOR * x\n")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, name, package)
    own, of_user = tg.compile(package.f), tg.compile(lambda x: package.f(x))
    for _ in range(3):
        assert own(3.0) == of_user(3.0) == 6.0
    package.FACTOR = 5.0
    assert own(3.0) == 15.0
    assert of_user(3.0) == (15.0 if enter else 6.0)  # see docs/limits.md
    assert len(names_read(lambda x: pytest.approx(hypothesis.given(x)))._found) == 3


calls = 0


@counts
def test_a_name_that_the_function_assigns_is_not_checked():
    def counting(x):
        global calls
        calls += 1
        return x * x

    c = tg.compile(counting)
    before = calls
    for _ in range(10):
        assert c.grad(3.0) == 6.0
    assert calls - before == 2  # recorded, and compared


@counts
@pytest.mark.parametrize("value", [300, 0.1, "a name", np.float64(0.1)])
def test_equal_plain_values_are_the_same(value, monkeypatch):
    calls = []

    def f(x):
        calls.append(None)
        return x * len(str(FACTOR))

    c = tg.compile(f)
    for _ in range(6):
        monkeypatch.setitem(globals(), "FACTOR", pickle.loads(pickle.dumps(value)))
        assert c.grad(3.0) == len(str(value))
    assert len(calls) == 2


@pytest.mark.parametrize("pair", [(1, 1.0), (0.0, -0.0), (1, True), (2.0, np.float64(2.0))])
def test_values_that_differ_in_kind_or_sign_are_not(pair, monkeypatch):
    c = tg.compile(lambda x: x * len(str(FACTOR)) + len(type(FACTOR).__name__))
    for value in pair * 3:
        monkeypatch.setitem(globals(), "FACTOR", value)
        assert c(3.0) == 3.0 * len(str(value)) + len(type(value).__name__)


@counts
def test_names_of_attributes_and_of_own_variables_are_not_checked(monkeypatch):
    calls = []

    def f(x):
        calls.append(None)
        SECOND = x.T

        def inside():
            return SECOND

        return np.sum(inside())

    c = tg.compile(f)
    for k in range(6):
        monkeypatch.setitem(globals(), "T", k)
        monkeypatch.setitem(globals(), "SECOND", k)
        c(X)
    assert len(calls) == 2


@pytest.mark.parametrize("with_branch", [False, True])
def test_a_name_that_changes_at_each_call_ends_in_eager_calls(with_branch, monkeypatch):
    f = of_branch if with_branch else of_global
    c = tg.compile(f)
    for x in (X, -X, X):
        c(x)
    with pytest.warns(RuntimeWarning, match="FACTOR, which it reads, changes at nearly every"):
        for k in range(60):
            monkeypatch.setitem(globals(), "FACTOR", 1.0 + k)
            same(c.grad(X), tg.grad(f)(X))
    assert "runs eagerly: FACTOR" in repr(c)


def test_changes_now_and_then_do_not(monkeypatch):
    c = tg.compile(of_global)
    for k in range(30):
        monkeypatch.setitem(globals(), "FACTOR", 1.0 + k)
        for _ in range(5):
            same(c(X), of_global(X))
    assert "1 program" in repr(c)


def test_copies_and_pickles_check_names(monkeypatch):
    c = tg.compile(of_global)
    for _ in range(3):
        c.grad(X)
    made = [copy.copy(c), copy.deepcopy(c), pickle.loads(pickle.dumps(c))]
    for one in made:
        same(one.grad(X), tg.grad(of_global)(X))
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    for one in made:
        same(one.grad(X), tg.grad(of_global)(X))


def test_clear_forgets_names(monkeypatch):
    c = tg.compile(of_global)
    for _ in range(3):
        c(X)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    c.clear()
    for _ in range(3):
        same(c(X), of_global(X))


def test_threads_see_one_value_or_the_next(monkeypatch):
    """Each result is that of a value that the name had during the call."""
    factors = [1.0 + k / 8.0 for k in range(100)]
    known = []
    for factor in factors:
        monkeypatch.setitem(globals(), "FACTOR", factor)
        known.append((of_global(X), tg.grad(of_global)(X)))
    c = tg.compile(of_global)
    wrong, done = [], threading.Event()

    def work():
        while not done.is_set():
            value, gradient = c.value_and_grad(X)
            if not any(np.allclose(value, v) and np.allclose(gradient, g) for v, g in known):
                wrong.append((value, gradient))
            found = c(X)
            if not any(np.allclose(found, v) for v, _ in known):
                wrong.append(found)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about changes at nearly every call
        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for factor in factors:
            globals()["FACTOR"] = factor
            c.value_and_grad(X)
        done.set()
        for one in threads:
            one.join()
    assert not wrong
    for factor, (value, gradient) in zip(factors[::10], known[::10], strict=True):
        globals()["FACTOR"] = factor
        for _ in range(2):
            same(c(X), value)
            same(c.grad(X), gradient)
