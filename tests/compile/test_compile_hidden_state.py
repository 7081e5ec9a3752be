"""State that code reaches by ways of its own: namespaces, iterators, texts, unbound methods."""

import argparse
import collections
import contextvars
import csv
import dataclasses
import itertools
import operator
import threading
import types
import weakref

import numpy as np
import pytest

import tapegrad as tg

X = np.array([0.5, -1.5, 2.0])
N = 1.0


class Model:
    def __init__(self, w=2.0):
        self.w = w

    def loss(self, x):
        return self.w * np.sum(x * x)


class Weighed(Model):
    part = Model()

    def loss(self, x):
        return self.part.loss(x)


@dataclasses.dataclass(slots=True)
class Slots:
    model: Model


class Options(dict):
    rate = 2.0


class Rows(list):
    scale = 2.0

    def loss(self, x):
        return self[0] * self.scale * np.sum(x * x)


def followed(make, verify: str, count: int = 6):
    """Calls of a compiled function, and of another one eagerly, with a change after each second."""
    (f, change), (g, other) = make(), make()
    c, eager = tg.compile(f, verify=verify), tg.value_and_grad(g)
    for k in range(count):
        found, wanted = c.value_and_grad(X), eager(X)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13, err_msg=f"call {k}")
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-13, err_msg=f"call {k}")
        if k % 2 and change is not None:
            change(2.0 + k), other(2.0 + k)
    return c


# --- objects in objects of the standard library, and in modules ----------------------------------


def _module(name: str, text: str, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    exec(text, vars(made))
    return made


def _local(model):
    made = threading.local()
    made.model = model
    return made


def _held(put):
    """A function of a model in what `put` makes of it, and what changes the model."""

    def make():
        model = Model()
        find, held = put(model)

        def f(x):
            return find(held).loss(x)

        return f, lambda v: setattr(model, "w", v)

    return make


HELD = {
    "namespace": lambda m: (lambda h: h.model, types.SimpleNamespace(model=m)),
    "namespace in a list": lambda m: (lambda h: h[0].model, [types.SimpleNamespace(model=m)]),
    "options": lambda m: (lambda h: h.model, argparse.Namespace(model=m)),
    "deque": lambda m: (lambda h: h[0], collections.deque([m])),
    "user's dict": lambda m: (lambda h: h["m"], collections.UserDict(m=m)),
    "user's list": lambda m: (lambda h: h[0], collections.UserList([m])),
    "chain": lambda m: (lambda h: h["m"], collections.ChainMap({}, {"m": m})),
    "proxy": lambda m: (lambda h: h["m"], types.MappingProxyType({"m": m})),
    "slots": lambda m: (lambda h: h.model, Slots(m)),
    "module": lambda m: (lambda h: h.model, _module("held", "", model=m)),
    "module in a module": lambda m: (
        lambda h: h.inner.model,
        _module("held", "", inner=_module("inner", "", model=m)),
    ),
    "list of the user's": lambda m: (lambda h: h[0], Rows([m])),
    "array": lambda m: (lambda h: h[0], np.array([m], object)),
    "keys": lambda m: (lambda h: [*h][0], {m: 1.0}),
    "values": lambda m: (lambda h: [*h][0], {"m": m}.values()),
    "of a thread": lambda m: (lambda h: h.model, _local(m)),
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", HELD)
def test_a_model_in_another_object(what, verify):
    c = followed(_held(HELD[what]), verify)
    assert c._reason is None


def _function_of_a_module():
    module = _module("held", "FACTOR = 2.0\ndef loss(x):\n    return FACTOR * (x * x).sum()")
    outer = _module("outer", "", inner=module)
    return lambda x: outer.inner.loss(x), lambda v: setattr(module, "FACTOR", v)


def _attribute_of_the_class():
    kind = type("Kind", (Weighed,), {"part": Model(), "__module__": __name__})
    model = kind()
    return lambda x: model.loss(x), lambda v: setattr(kind.part, "w", v)


def _attribute_of_a_list():
    rows = Rows([1.0])
    return lambda x: rows.loss(x), lambda v: setattr(rows, "scale", v)


def _attribute_of_a_dict():
    held = Options(rate=7.0)
    return lambda x: held.rate * np.sum(x), lambda v: setattr(held, "rate", v)


def _data_of_a_users_dict():
    held = collections.UserDict(k=2.0)
    return lambda x: held["k"] * np.sum(x), lambda v: held.update(k=v)


def _data_of_a_users_dict_replaced():
    held = collections.UserDict(k=2.0)
    return lambda x: held["k"] * np.sum(x), lambda v: setattr(held, "data", {"k": v})


def _data_of_a_chain():
    first = {"k": 2.0}
    held = collections.ChainMap({}, first)
    return lambda x: held["k"] * np.sum(x), lambda v: first.update(k=v)


def _data_of_a_proxy():
    first = {"k": 2.0}
    held = types.MappingProxyType(first)
    return lambda x: held["k"] * np.sum(x), lambda v: first.update(k=v)


def _weak():
    model = Model()
    held, again = weakref.ref(model), weakref.proxy(model)
    return lambda x: held().loss(x) + again.loss(x), lambda v: setattr(model, "w", v)


def _values_of_a_dict():
    held = {"a": 2.0}
    values, items = held.values(), held.items()
    return lambda x: (sum(values) + dict(items)["a"]) * np.sum(x), lambda v: held.update(a=v)


def _getters():
    held = types.SimpleNamespace(rate=2.0, part=types.SimpleNamespace(rate=3.0))
    get = operator.attrgetter("part.rate")
    return lambda x: (get(held) + operator.attrgetter("rate")(held)) * np.sum(x), (
        lambda v: [setattr(one, "rate", v) for one in (held, held.part)]
    )


class Unit(np.ndarray):
    unit = 2.0


def _attribute_of_an_array():
    held = np.ones(2).view(Unit)
    return lambda x: held.unit * np.sum(x), lambda v: setattr(held, "unit", v)


class Layer(tg.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        return np.sum(self.scale * x)


def _layer():
    layer = Layer()
    net = tg.nn.Sequential(layer)
    return lambda x: net(x), lambda v: setattr(layer, "scale", v)


def _flat():
    array = np.array([2.0, 3.0])
    flat = array.flat
    return lambda x: flat[0] * np.sum(x), lambda v: array.__setitem__(0, v)


DATA = [
    *(_function_of_a_module, _attribute_of_the_class, _attribute_of_a_list),
    *(_attribute_of_a_dict, _flat, _weak, _values_of_a_dict, _getters, _layer),
    _attribute_of_an_array,
    *(_data_of_a_users_dict, _data_of_a_users_dict_replaced, _data_of_a_chain, _data_of_a_proxy),
]


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("make", DATA, ids=lambda f: f.__name__[1:])
def test_data_in_another_object(make, verify):
    assert followed(make, verify)._reason is None


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("kind", [types.SimpleNamespace, argparse.Namespace, Options])
def test_a_generator_of_random_numbers_in_a_namespace(kind, verify):
    def make():
        held = kind(draws=np.random.default_rng(3))
        if kind is Options:
            return lambda x: np.sum(x) * held["draws"].normal(), None
        return lambda x: np.sum(x) * held.draws.normal(), None

    with pytest.warns(RuntimeWarning, match="it draws random numbers from a Generator"):
        followed(make, verify)


# --- iterators ------------------------------------------------------------------------------------


def _next(make):
    def made():
        held = make()
        return (lambda x: np.sum(x) * next(held)), None

    return made


def _lines(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("".join(f"{k}.5\n" for k in range(20)))
    return path.open(encoding="utf-8")


NEXT = {
    "count": lambda: itertools.count(1),
    "cycle": lambda: itertools.cycle([1.0, 1.0, 1.0, 2.0]),
    "generator": lambda: (1.0 * k for k in range(1, 20)),
    "list": lambda: iter([1.0, 1.0, 1.0, 2.0, 3.0, 4.0]),
    "enumerate": lambda: map(operator.itemgetter(0), enumerate("abcdefgh", 1)),
    "reversed": lambda: reversed(range(20)),
    "range": lambda: iter(range(20)),
    "dict": lambda: iter(dict.fromkeys([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
    "csv": lambda: map(float, next(csv.reader(["1,2,3,4,5,6,7"]))),
    "array": lambda: np.nditer(np.arange(1.0, 9.0)),
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", NEXT)
def test_items_that_come_once(what, verify):
    with pytest.warns(RuntimeWarning, match="it reads held, whose items come once"):
        followed(_next(NEXT[what]), verify)


def _looped():
    pairs = zip([1.0, 2.0], [3.0, 4.0], strict=True)

    def f(x):
        total = x[0]
        for a, b in pairs:
            total = total + a * b * x[1]
        return total

    return f, None


def _in_a_loop_with_branches():
    held = itertools.count()

    def f(x):
        total = 0.0
        for v in x:
            total = total + (v * next(held) if v > 0 else v)
        return total

    return f, None


def _in_an_attribute():
    held = types.SimpleNamespace(count=itertools.count())
    return lambda x: np.sum(x) * next(held.count), None


def _in_a_dict():
    held = {"count": itertools.count()}
    return lambda x: np.sum(x) * next(held["count"]), None


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("make", [_looped, _in_a_loop_with_branches, _in_an_attribute, _in_a_dict])
def test_iterators_in_other_places(make, verify):
    with pytest.warns(RuntimeWarning, match="whose items come once"):
        followed(make, verify)


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("how", ["readline", "read", "loop", "csv"])
def test_files(tmp_path, how, verify):
    ways = {
        "readline": lambda held: float(held.readline()),
        "read": lambda held: float(held.read(4)),
        "loop": lambda held: sum([float(line) for line, _ in zip(held, "ab", strict=False)]),
        "csv": lambda held: float(next(held)[0]),
    }

    files = [_lines(tmp_path), _lines(tmp_path)]

    def make(left=iter(files)):  # noqa: B008
        held = csv.reader(next(left)) if how == "csv" else next(left)
        return lambda x: np.sum(x) * ways[how](held), None

    with pytest.warns(RuntimeWarning, match="it reads held, whose items come once"):
        followed(make, verify)
    for one in files:
        one.close()


def test_a_file_that_is_written(tmp_path):
    with (tmp_path / "log").open("w", encoding="utf-8") as log:

        def f(x):
            log.write("called\n")
            return np.sum(x * x)

        c = tg.compile(f)
        for _ in range(3):
            assert c(X) == pytest.approx(6.5)
        assert c._reason is None


@pytest.mark.parametrize("verify", ["once", "never"])
def test_a_context_variable(verify):
    def make():
        held = contextvars.ContextVar("held", default=2.0)
        return lambda x: held.get() * np.sum(x), held.set

    with pytest.warns(RuntimeWarning, match="it reads held, a context variable"):
        followed(make, verify)


# --- names by their text --------------------------------------------------------------------------


def _scope(body: str, change: str, **names):
    """Functions of a text whose globals are their own."""

    def make():
        scope = {"np": np, "Model": Model, "types": types, **names, "__name__": __name__}
        exec(f"def f(x, *names):\n    {body}\ndef change(v):\n    {change}", scope)
        if "made" in scope:
            scope["held"] = scope["made"]()
        return scope["f"], scope["change"]

    return make


def _fields():
    return types.SimpleNamespace(n=1.0, w0=2.0, w1=3.0)


READ_BY_TEXT = {
    "globals": ("return np.sum(x) * globals()['n']", "globals()['n'] = v", {"n": 1.0}),
    "globals, get": ("return np.sum(x) * globals().get('n', 3.0)", "globals()['n'] = v", {}),
    "vars": ("return np.sum(x) * vars(held)['n']", "held.n = v", {"made": _fields}),
    "dict": ("return np.sum(x) * held.__dict__['n']", "held.n = v", {"made": _fields}),
    "dict, key": ("return np.sum(x) * held.__dict__['w%d' % 1]", "held.w1 = v", {"made": _fields}),
    "getattr": ("return np.sum(x) * getattr(held, 'n')", "held.n = v", {"made": _fields}),
    "getattr, computed": (
        "return sum([getattr(held, f'w{k}') * x[k] for k in range(2)])",
        "held.w1 = v",
        {"made": _fields},
    ),
    "getattr, default": (
        "return np.sum(x) * getattr(held, 'w' + str(2), 5.0)",
        "held.w2 = v",
        {"made": _fields},
    ),
    "getattr of a model": (
        "return np.sum(x) * sum([getattr(held, k) for k in ('w',)])",
        "held.w = v",
        {"made": Model},
    ),
    "getattr of a class": (
        "return np.sum(x) * getattr(type(held), 'a' + 'b', 2.0)",
        "type(held).ab = v",
        {"made": lambda: type("Own", (Model,), {"__module__": __name__})()},
    ),
    "values": ("return np.sum(x) * sum(vars(held).values())", "held.w0 = v", {"made": _fields}),
    "eval, computed names": (
        "return np.sum(x) * eval('m.n', dict([('m', held)]))",
        "held.n = v",
        {"made": _fields},
    ),
    "setattr": ("setattr(held, 'm' + 'n', 1)\n    return np.sum(x) * held.n", "held.n = v",
                {"made": _fields}),
}  # fmt: skip


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", READ_BY_TEXT)
@pytest.mark.filterwarnings("ignore:tapegrad.compile. f changes:RuntimeWarning")
def test_names_that_a_text_gives(what, verify):
    body, change, names = READ_BY_TEXT[what]
    assert followed(_scope(body, change, **names), verify)._reason is None


CHANGED_BY_TEXT = {
    "globals": ("globals()['n'] += 1\n    return np.sum(x) * (n > 3)", {"n": 0}),
    "globals, read so": ("globals()['n'] += 1\n    return np.sum(x) * globals()['n']", {"n": 0}),
    "vars": ("vars(held)['n'] += 1\n    return np.sum(x) * held.n", {"made": _fields}),
    "dict": ("held.__dict__['n'] += 1\n    return np.sum(x) * held.n", {"made": _fields}),
    "setattr": (
        "setattr(held, 'w%d' % 1, held.w1 + 1)\n    return np.sum(x) * (held.w1 > 6)",
        {"made": _fields},
    ),
    "getattr": (
        "for k in ('n', 'w0'):\n        setattr(held, k, getattr(held, k) + 1)\n"
        "    return np.sum(x) * (held.w0 > 6)",
        {"made": _fields},
    ),
    "all of it": ("g = globals()\n    g['n'] += 1\n    return np.sum(x) * g['n']", {"n": 0}),
    "a text": ("exec('n = n + 1', globals())\n    return np.sum(x) * eval('n')", {"n": 0}),
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", CHANGED_BY_TEXT)
def test_what_a_function_changes_by_a_text(what, verify):
    body, names = CHANGED_BY_TEXT[what]
    with pytest.warns(RuntimeWarning, match="runs eagerly, without a program: it"):
        followed(_scope(body, "pass", **names), verify, 9)


# --- long containers ------------------------------------------------------------------------------


CHANGES_OF_LISTS = {
    "item": lambda held: held.__setitem__(5, held[5] + 1.0),
    "operator": lambda held: operator.setitem(held, 5, held[5] + 1.0),
    "unbound": lambda held: list.__setitem__(held, 5, held[5] + 1.0),
    "insert": lambda held: list.insert(held, 5, held[5] + 1.0),
    "statement": None,
}


@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("how", CHANGES_OF_LISTS)
def test_items_of_long_lists_that_a_function_changes(how, verify, branches):
    def make():
        held, change = [1.0] * 300, CHANGES_OF_LISTS[how]

        def stated(held):
            held[5] = held[5] + 1.0

        change = change or stated

        def f(x):
            change(held)
            return x[0] * held[5] if not branches or x[0] > 0 else x[1] * held[5]

        return f, None

    with pytest.warns(RuntimeWarning, match="runs eagerly, without a program: it"):
        followed(make, verify)


@pytest.mark.parametrize("verify", ["once", "never"])
def test_items_of_long_dicts_that_a_function_changes(verify):
    def make():
        held = {k: 1.0 for k in range(300)}

        def f(x):
            dict.update(held, {5: held[5] + 1.0})
            return np.sum(x) * held[5]

        return f, None

    with pytest.warns(RuntimeWarning, match="runs eagerly, without a program: it"):
        followed(make, verify)


@pytest.mark.parametrize("verify", ["once", "never"])
def test_items_of_lists_in_long_lists_that_a_function_changes(verify):
    def make():
        held = [[1.0, 2.0] for _ in range(300)]

        def f(x):
            held[200][1] += 1.0
            return np.sum(x) * held[200][1]

        return f, None

    with pytest.warns(RuntimeWarning, match="runs eagerly, without a program: it"):
        followed(make, verify)


@pytest.mark.filterwarnings("ignore:tapegrad.compile. f changes:RuntimeWarning")
@pytest.mark.parametrize("verify", ["once", "never"])
def test_a_long_history_costs_no_program(verify):
    history = [1.0] * 300

    def f(x):
        history.append(1.0)
        return np.linalg.solve(2.0 * np.eye(3), x)[0]

    c = tg.compile(f, verify=verify)
    for _ in range(4):
        assert c(X) == pytest.approx(0.25)
    assert c._reason is None


# --- statements that change and read, in code that graphs cannot read -----------------------------


def _transformed(x, weight):
    return weight * np.sum(np.abs(np.fft.fft(x)) ** 2)


BOTH = {
    "walrus": ("y = (n := n + 1) * 1.0", "nonlocal n"),
    "walrus over lines": ("y = (\n    n := n + 1\n) * 1.0", "nonlocal n"),
    "two targets": ("d['n'] = y = d['n'] + 1", ""),
    "setdefault": ("d['n'] += 1; y = d.setdefault('n', 0)", ""),
    "pop": ("h.append(h[-1] + 1); y = h.pop(0) * 1.0", ""),
    "another list": ("h[0] += 1; other[0] = h[0]; y = other[0]", ""),
    "appended elsewhere": ("own = []; h[0] += 1; own.append(h[0]); y = own[0]", ""),
    "given to a function": ("d['n'] = kept(d['n'], other); y = other[0]", ""),
    "alias": ("h[0] += 1; y = same[0]", ""),
    "alias in a dict": ("h[0] += 1; y = inside['h'][0]", ""),
    "view": ("a[0] += 1; y = view[0]", ""),
    "loop": ("for y in [d.update(n=d['n'] + 1) or d['n']]:\n    pass", ""),
    "in a condition": ("y = 1.0 if d.update(n=d['n'] + 1) or d['n'] < 5 else 2.0", ""),
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", BOTH)
def test_a_statement_that_changes_and_reads(what, verify):
    body, declared = BOTH[what]
    lines = [declared or "pass", *body.split("\n"), "return transformed(x, y)"]
    text = "def make():\n    n, d, h, other = 0, {'n': 0}, [0], [0]\n    a = np.zeros(2)\n"
    text += "    same, inside, view = h, {'h': h}, a[:1]\n    def f(x):\n"
    text += "".join(f"        {line}\n" for line in lines) + "    return f, None\n"

    def kept(value, held):
        held[0] = value + 1
        return value + 1

    scope = {"np": np, "transformed": _transformed, "kept": kept, "__name__": __name__}
    exec(text, scope)
    with pytest.warns(RuntimeWarning, match="runs eagerly, without a program: it changes"):
        followed(scope["make"], verify)


ALONE = {
    "counter": "h[0] += 1",
    "of a dict": "d['n'] = d.get('n', 0) + 1",
    "over lines": "h.append(\n    1.0\n)",
    "history": "h.append(len(h))",
    "smallest": "d['n'] = min(d['n'], 1.0)",
    "in a with statement": "with np.errstate(all='ignore'):\n    h[0] += 1",
    "nested": "d.setdefault('m', []).append(1)",
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", ALONE)
@pytest.mark.filterwarnings("ignore:tapegrad.compile. f changes:RuntimeWarning")
def test_a_statement_that_changes_alone_costs_no_program(what, verify):
    text = "def make():\n    d, h = {'n': 0}, [0]\n    def f(x):\n"
    text += "".join(f"        {line}\n" for line in ALONE[what].split("\n"))
    text += "        return transformed(x, 2.0)\n    return f, None\n"
    scope = {"np": np, "transformed": _transformed, "__name__": __name__}
    exec(text, scope)
    assert followed(scope["make"], verify)._reason is None
