"""Cells of code as users write them, for tests that enter their function `f`.

Each begins with `## name`, perhaps with the oldest Python that has its syntax. `then1` and `then2`
are called between calls of `f`; `state` gives what these have changed.

usage: python tests/fuzz/entered_snippets.py [rounds] [seed]
Runs cells with random inputs, changes and transforms beside the plain functions.
"""

# ruff: noqa: E501
import itertools
import linecache
import math
import random
import sys
import types
import warnings

import numpy as np

import tapegrad as tg

TEXT = r"""
## mock_patch_of_numpy
from unittest import mock
def f(x):
    return np.sum(np.cumsum(x)) * math.sin(x[0])
patcher = mock.patch("numpy.cumsum", lambda x: 3.0 * x)
then1, then2 = patcher.start, patcher.stop
## mock_patch_object
from unittest import mock
class Gain:
    def at(self, v): return math.sin(v)
gain = Gain()
def f(x): return gain.at(x[0]) * x[1]
patcher = mock.patch.object(Gain, "at", lambda self, v: math.exp(v) * np.array([v, 1.0])[0])
then1, then2 = patcher.start, patcher.stop
## mock_patch_dict
from unittest import mock
RULES = {"act": lambda v: math.sin(v)}
def f(x): return RULES["act"](x[0]) * RULES.get("gain", 2.0) * x[1]
patcher = mock.patch.dict(RULES, {"act": lambda v: math.cos(v), "gain": 3.0})
then1, then2 = patcher.start, patcher.stop
## mock_patch_inside
from unittest import mock
def helper(v): return math.sin(v)
def f(x):
    with mock.patch(f"{__name__}.helper", lambda v: v * v):
        inner = helper(x[0])
    return inner * helper(x[1])
## a_mock_is_called
from unittest import mock
log = mock.Mock(return_value=2.0)
def f(x): return math.sin(x[0]) * log(1) * x[1]
def state(): return log.call_count
## setattr_on_a_module
import types
config = types.ModuleType("config"); config.rate = 2.0; config.act = np.tanh
def f(x): return config.rate * config.act(x[0]) + math.exp(x[1])
def then1(): config.rate = 5.0
def then2(): config.act = lambda v: math.sin(v)
## asyncio_run
import asyncio
async def part(v):
    await asyncio.sleep(0)
    y = np.zeros(1); y[0] = math.sin(v)
    return y[0]
async def whole(x):
    a, b = await asyncio.gather(part(x[0]), part(x[1]))
    return a * b
def f(x): return asyncio.run(whole(x))
## async_generator_and_with
import asyncio, contextlib
class Scaled:
    async def __aenter__(self): return math.exp(0.5)
    async def __aexit__(self, *e): return False
async def values(x):
    for v in x:
        yield math.sin(v)
async def whole(x):
    total = 0.0
    async with Scaled() as s:
        async for v in values(x): total = total + s * v
    return total + sum([v async for v in values(x)])
def f(x): return asyncio.run(whole(x))
## a_coroutine_by_hand
def steps(x):
    received = yield math.sin(x[0])
    while True: received = yield received * math.cos(x[1])
def f(x):
    g = steps(x); first = next(g)
    return g.send(first) + g.send(2.0)
## yield_from_and_return
def inner(v):
    yield math.sin(v)
    return math.exp(v)
def outer(x):
    a = yield from inner(x[0])
    b = yield from inner(x[1])
    yield a * b
def f(x): return sum(outer(x))
## generator_throw_and_close
def guarded(x, log=[]):
    try:
        yield math.sin(x[0])
    except ValueError:
        yield math.exp(x[1])
    finally:
        log.append(1)
def f(x):
    g = guarded(x); a = next(g); b = g.throw(ValueError()); g.close()
    return a * b
def state(): return len(guarded.__defaults__[0])
## dataclass_fields
from dataclasses import dataclass, field, replace, asdict, fields
@dataclass(frozen=True)
class Params:
    a: float = 1.0
    b: np.ndarray = field(default_factory=lambda: np.zeros(2) + math.sqrt(2.0))
    def energy(self): return self.a * np.sum(self.b ** 2) + math.sin(self.a)
BASE = Params()
def f(x):
    p = replace(BASE, a=x[0], b=np.array([x[1], 2.0]))
    return p.energy() + sum(v for v in asdict(p)["b"]) + len(fields(p)) + BASE.energy()
## dataclass_slots_order
from dataclasses import dataclass
@dataclass(slots=True, order=True)
class Item:
    key: float
    value: float = 0.0
    def __post_init__(self): self.value = math.exp(self.key)
def f(x):
    first = min(Item(x[0]), Item(x[1]))
    return first.value * max(Item(x[0]), Item(x[1])).key
## attrs_like
def define(cls):
    names = [*cls.__annotations__]
    def __init__(self, *args, **kw):
        for name, value in {**dict(zip(names, args)), **kw}.items(): object.__setattr__(self, name, value)
    cls.__init__ = __init__
    cls.__eq__ = lambda self, other: all(getattr(self, n) == getattr(other, n) for n in names)
    return cls
@define
class Point:
    u: float
    v: float
    def norm(self): return math.hypot(self.u, self.v)
def f(x): return Point(x[0], v=x[1]).norm() * (2.0 if Point(1, 2) == Point(1, 2) else 3.0)
## namedtuple_typing
from typing import NamedTuple
class State(NamedTuple):
    q: float
    p: float = 1.0
    def step(self, h): return self._replace(q=self.q + h * self.p, p=self.p - h * math.sin(self.q))
def f(x):
    s = State(x[0], p=x[1])
    for _ in range(5): s = s.step(0.1)
    q, p = s
    return q * p
## enum_members_that_call
import enum
class Act(enum.Enum):
    SIN = enum.member(lambda v: math.sin(v)) if hasattr(enum, "member") else "sin"
    EXP = "exp"
    def __call__(self, v): return math.sin(v) if self is Act.SIN else math.exp(v)
def f(x): return Act.SIN(x[0]) * Act["EXP"](x[1]) + (Act("exp") is Act.EXP)
## int_flag_and_auto
import enum
class Mode(enum.IntFlag):
    A = enum.auto(); B = enum.auto()
def f(x):
    m = Mode.A | Mode.B
    return (math.sin(x[0]) if Mode.A in m else 0.0) + int(m) * x[1] * (3.0 if m & Mode.B else 1.0)
## abstract_base_class
import abc
class Kernel(abc.ABC):
    @abc.abstractmethod
    def k(self, d): ...
    def matrix(self, x): return np.array([[self.k(a - b) for b in x] for a in x])
class RBF(Kernel):
    def k(self, d): return math.exp(-0.5 * d * d)
def f(x): return np.linalg.slogdet(RBF().matrix(x) + np.eye(2))[1]
## virtual_subclass
import abc
class Shape(abc.ABC): pass
class Circle:
    def area(self, r): return math.pi * r ** 2
Shape.register(Circle)
def f(x):
    c = Circle()
    return c.area(x[0]) * (x[1] if isinstance(c, Shape) and issubclass(Circle, Shape) else 0.0)
## metaclass_registry
class Meta(type):
    table = {}
    def __new__(m, name, bases, space):
        cls = super().__new__(m, name, bases, space)
        if bases: m.table[name.lower()] = cls
        return cls
    def __call__(cls, *a): return super().__call__(*a)
class Layer(metaclass=Meta): pass
class Sin(Layer):
    def __init__(self, w): self.w = w
    def __call__(self, v): return math.sin(self.w * v)
class Exp(Sin):
    def __call__(self, v): return math.exp(self.w) * super().__call__(v)
def f(x): return Meta.table["sin"](2.0)(x[0]) * Meta.table["exp"](x[1])(x[0])
## init_subclass_plugins
class Plugin:
    known = []
    def __init_subclass__(cls, /, weight=1.0, **kw):
        super().__init_subclass__(**kw); cls.weight = weight; Plugin.known.append(cls)
class A(Plugin, weight=2.0):
    def run(self, v): return math.sin(v)
class B(Plugin):
    def run(self, v):
        y = np.zeros(1); y[0] = v * v
        return y[0]
def f(x): return sum(p.weight * p().run(x[0]) for p in Plugin.known) * x[1]
## decorator_registry
REGISTRY = {}
def register(name):
    def add(g): REGISTRY[name] = g; return g
    return add
@register("a")
def first(v): return math.sin(v)
@register("b")
def second(v): return np.array([v, v * v]).prod()
def f(x): return sum(g(x[0]) for _, g in sorted(REGISTRY.items())) * x[1]
def then1(): REGISTRY["b"] = first
def then2(): REGISTRY["c"] = lambda v: math.exp(v)
## property_setter_deleter
class Box:
    def __init__(self, v): self._v = v
    @property
    def v(self): return math.sin(self._v)
    @v.setter
    def v(self, new): self._v = math.exp(new)
    @v.deleter
    def v(self): self._v = math.sqrt(4.0)
def f(x):
    b = Box(x[0]); a = b.v; b.v = x[1]; c = b.v; del b.v
    return a * c + b.v
## descriptor_with_get
class Scaled:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, kind=None): return self if obj is None else math.exp(getattr(obj, self.name))
    def __set__(self, obj, value): setattr(obj, self.name, math.log(value))
class Model:
    rate = Scaled()
def f(x):
    m = Model(); m.rate = x[0] ** 2 + 1.0
    return m.rate * x[1] + (1.0 if isinstance(Model.rate, Scaled) else 0.0)
## getattr_dynamic
class Proxy:
    def __init__(self, inner): self.__dict__["inner"] = inner
    def __getattr__(self, name): return getattr(self.inner, name)
class Inner:
    k = 2.0
    def act(self, v): return math.sin(self.k * v)
proxy = Proxy(Inner())
def f(x): return proxy.act(x[0]) * proxy.k * x[1]
def then1(): Inner.k = 3.0
## getattribute_logged
class Logged:
    seen = []
    def __getattribute__(self, name):
        if not name.startswith("_"): Logged.seen.append(name)
        return object.__getattribute__(self, name)
    def act(self, v): return math.cos(v)
logged = Logged()
def f(x): return logged.act(x[0]) * math.sin(x[1])
def state(): return [*Logged.seen]
## module_getattr
import types, sys
lazy = types.ModuleType("lazy_of_cells")
exec("import math\ndef __getattr__(name):\n    if name == 'act': return lambda v: math.sin(v)\n    raise AttributeError(name)\ndef gain(v): return math.exp(v)", vars(lazy))
def f(x): return lazy.gain(x[0]) * math.sin(x[1])
## slots_and_super
class Base:
    __slots__ = ("a",)
    def __init__(self, a): self.a = a
    def at(self, v): return math.sin(self.a * v)
class Derived(Base):
    __slots__ = ("b",)
    def __init__(self, a, b): super().__init__(a); self.b = b
    def at(self, v): return super().at(v) + math.cos(self.b * v)
d = Derived(2.0, 3.0)
def f(x): return d.at(x[0]) * Derived(x[1], 1.0).at(0.3)
def then1(): d.a = 1.0
## multiple_inheritance
class A:
    def go(self, v): return math.sin(v)
class Twice:
    def go(self, v): return 2.0 * super().go(v)
class Plus:
    def go(self, v): return super().go(v) + math.exp(v)
class Whole(Twice, Plus, A): pass
def f(x): return Whole().go(x[0]) * Whole().go(x[1])
## class_cell_and_nonlocal
def made():
    count = 0
    class Inner:
        def go(self, v):
            nonlocal count
            count += 1
            return __class__.scale * math.sin(v)
        scale = 2.0
    return Inner(), lambda: count
inner, state = made()
def f(x): return inner.go(x[0]) * x[1]
## operator_overloading
class V:
    def __init__(self, *c): self.c = np.array(c)
    def __add__(self, o): return V(*(self.c + o.c))
    def __mul__(self, k): return V(*(self.c * k))
    __rmul__ = __mul__
    def __matmul__(self, o): return np.dot(self.c, o.c)
    def __abs__(self): return math.sqrt(self @ self)
    def __neg__(self): return self * -1.0
    def __iter__(self): return iter(self.c)
    def __bool__(self): return bool(len(self.c))
def f(x): return abs(2.0 * V(*x) + -V(1.0, x[0])) * sum(V(*x)) * (1.0 if V(1.0) else 2.0)
## context_managers
import contextlib
@contextlib.contextmanager
def scaled(v):
    yield math.exp(v)
class Guard(contextlib.ContextDecorator):
    def __enter__(self): return math.sqrt(2.0)
    def __exit__(self, *e): return True
@Guard()
def guarded(v): return math.sin(v)
def f(x):
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(scaled(x[0])); b = stack.enter_context(Guard())
        stack.callback(math.sin, 1.0)
    with contextlib.nullcontext(x[1]) as c, contextlib.suppress(KeyError):
        {}["a"]
    return a * b * c * guarded(x[0])
## errors_and_finally
def careful(v):
    try:
        return math.log(v)
    except ValueError as e:
        return math.exp(v) + len(e.args)
    else:
        return 0.0
    finally:
        LOG.append(1)
LOG = []
def f(x): return careful(x[0]) * careful(x[1])
def state(): return len(LOG)
## exception_groups >= 3.11
def f(x):
    total = 0.0
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        total = total + math.sin(x[0])
    except* KeyError as group:
        total = total + math.exp(x[1]) * len(group.exceptions)
    return total
## custom_exception_with_value
class Stop(Exception):
    def __init__(self, v): self.v = math.sin(v)
def deep(x, n):
    if n == 0: raise Stop(x[0])
    return deep(x, n - 1)
def f(x):
    try: deep(x, 3)
    except Stop as s: return s.v * math.exp(x[1])
## singledispatch_method
import functools
class Eval:
    @functools.singledispatchmethod
    def at(self, v): return 7.0
    @at.register
    def _(self, v: float): return math.sin(v)
    @at.register
    def _(self, v: list): return sum(self.at(w) for w in v)
    @at.register(np.ndarray)
    def _(self, v): return np.sum(v ** 2)
def f(x): return Eval().at(x[0]) * Eval().at([x[1], x[0]]) + Eval().at(x)
## partial_and_partialmethod
import functools
class Poly:
    def power(self, v, n): return math.pow(v, n)
    square = functools.partialmethod(power, n=2.0)
scaled = functools.partial(lambda a, v, *, b=0.0: a * math.sin(v) + b, 2.0, b=1.0)
def f(x): return Poly().square(x[0]) * scaled(x[1]) + functools.partial(math.atan2, x[0])(2.0)
## reduce_and_compose
import functools, operator
def compose(*fs): return functools.reduce(lambda a, b: lambda v: b(a(v)), fs)
def f(x): return compose(np.sin, lambda v: v * 2.0, lambda v: math.exp(v), operator.neg)(x[0]) * x[1]
## cached_property_and_cache
import functools
class Grid:
    def __init__(self, n): self.n = n
    @functools.cached_property
    def nodes(self): return np.linspace(0.0, math.pi, self.n)
    @functools.cache
    def weights(self, k): return np.ones(self.n) * math.sqrt(k)
grid = Grid(4)
def f(x): return np.sum(np.sin(grid.nodes * x[0]) * grid.weights(2)) * x[1]
def state(): return type(grid.nodes).__name__, type(grid.weights(2)).__name__
## total_ordering_sorted
import functools
@functools.total_ordering
class Key:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __lt__(self, o): return math.cos(self.v) < math.cos(o.v)
def f(x): return sorted([x[0], x[1], 0.2], key=Key)[0] * x[1] + max(x, key=lambda v: math.sin(v))
## wraps_with_attributes
import functools
def counted(g):
    @functools.wraps(g)
    def inner(*a, **k):
        inner.calls += 1
        return g(*a, **k)
    inner.calls = 0
    return inner
@counted
def act(v, k=2.0): return math.sin(k * v)
def f(x): return act(x[0]) * act(x[1], k=1.0) * act.__wrapped__(0.5)
def state(): return act.calls, act.__name__
## class_decorator
class Memo:
    def __init__(self, g): self.g, self.n = g, 0
    def __call__(self, *a): self.n += 1; return self.g(*a)
    def __get__(self, obj, kind=None):
        import functools
        return functools.partial(self, obj)
@Memo
def plain(v): return math.exp(v)
class Model:
    @Memo
    def at(self, v): return np.array([math.sin(v), 2.0]).sum()
def f(x): return plain(x[0]) * Model().at(x[1])
def state(): return plain.n, Model.__dict__["at"].n
## optional_argument_decorator
def scaled(g=None, *, by=2.0):
    if g is None: return lambda h: scaled(h, by=by)
    return lambda v: by * g(v)
@scaled
def a(v): return math.sin(v)
@scaled(by=3.0)
def b(v): return math.cos(v)
def f(x): return a(x[0]) * b(x[1])
## lambda_tables_and_star
OPS = {"+": lambda a, b: a + b, "*": lambda a, b: a * b, "pow": lambda a, b: math.pow(a * a, b)}
def ev(e, x):
    if isinstance(e, tuple): return OPS[e[0]](*(ev(k, x) for k in e[1:]))
    return x[e] if isinstance(e, int) else e
EXPR = ("+", ("*", 0, 1), ("pow", 0, 1.5))
def f(x): return ev(EXPR, x)
def then1():
    global EXPR
    EXPR = ("*", ("+", 0, 1.0), 1)
## tree_walk_by_class_name
class Num:
    def __init__(self, v): self.v = v
class Sin:
    def __init__(self, a): self.a = a
class Visitor:
    def visit(self, n): return getattr(self, "visit_" + type(n).__name__)(n)
    def visit_Num(self, n): return n.v
    def visit_Sin(self, n): return math.sin(self.visit(n.a))
def f(x): return Visitor().visit(Sin(Sin(Num(x[0])))) * x[1]
## match_on_types_and_shapes
def area(s):
    match s:
        case {"kind": "circle", "r": r}: return math.pi * r ** 2
        case [float(a), float(b)] if a > 0: return math.sin(a) * b
        case [a, b]: return math.exp(a) - b
        case np.ndarray(): return np.sum(s)
        case None: return 0.0
def f(x): return area({"kind": "circle", "r": x[0]}) + area([x[0], x[1]]) + area(x * 2.0)
## match_class_patterns
from dataclasses import dataclass
@dataclass
class Add:
    left: object; right: object
@dataclass
class Lit:
    v: float
def run(e):
    match e:
        case Add(Lit(a), right=b): return math.sin(a) + run(b)
        case Add(a, b): return run(a) * run(b)
        case Lit(v=v): return v
        case int() | float() as n: return n * 2.0
def f(x): return run(Add(Add(Lit(x[0]), Lit(x[1])), Add(x[1], 3)))
## type_parameters >= 3.12
type Number = float | int
class Box[T]:
    def __init__(self, v: T): self.v = v
    def map[U](self, g) -> "Box[U]": return Box(g(self.v))
def twice[T](v: T) -> T: return math.sin(v) * 2
def f(x): return Box(x[0]).map(twice).map(lambda v: math.exp(v)).v * x[1]
## fstring_nesting >= 3.12
def f(x):
    label = f"{'a' if x[0] > 0 else f'{"b"}'}"
    return math.sin(x[0]) * {"a": 2.0, "b": 3.0}[label] * x[1]
## inlined_comprehensions
def f(x):
    y = 3.0
    squares = [y * math.sin(y) for y in x]
    return sum(squares) * y + sum({k: math.exp(v) for k, v in enumerate(x)}.values())
## walrus_and_chained_compares
def f(x):
    if (s := math.sin(x[0])) > 0.0 < x[1] <= 5.0: return s * x[1]
    return s + (t := math.exp(x[1])) * t
## positional_only_and_kwonly
def g(a, /, b, *args, c=np.pi, d=math.e, **kw): return a * b + sum(args) * c + math.sin(d) * kw["e"]
def f(x): return g(x[0], x[1], *x, e=x[0], **{"c": 2.0})
## unpacking_everywhere
def f(x):
    first, *rest = [*x, math.sin(x[0]), 2.0]
    (a, b), c = (rest[0], rest[1]), first
    d = {**{"u": a}, "v": b}
    return c * d["u"] + d["v"] * len(rest)
## loops_else_break
def f(x):
    total, k = np.zeros(2), 0
    while True:
        total[k % 2] += math.sin(x[k % 2]) / (k + 1.0); k += 1
        if k > 4: break
    for v in total:
        if v > 100.0: break
    else:
        total = total * 2.0
    return np.prod(total)
## del_and_rebind
def f(x):
    y = np.zeros(2); z = y; y[0] = x[0]; del y
    y = z[:]; y[1] = math.exp(x[1])
    return z.sum() * len(y)
## global_state_machine
STATE = {"n": 0, "history": []}
def f(x):
    STATE["n"] += 1
    v = math.sin(x[0]) * x[1]
    STATE["history"].append(float(v))
    return v * 1.0
def state(): return STATE["n"], [round(v, 9) for v in STATE["history"]], [type(v).__name__ in ("float", "float64") for v in STATE["history"]]
## globals_by_name
A, B = 2.0, 3.0
def f(x): return globals()["A"] * math.sin(x[0]) + B * x[1]
def then1(): globals()["A"] = 4.0
def then2(): globals().update(B=-1.0)
## name_deleted_and_builtin_shadowed
def abs(v): return v * v
def f(x): return abs(x[0]) * float(x[1]) * (2.0 if isinstance(x, np.ndarray) else 3.0)
def then1():
    del globals()["abs"]
    globals()["float"] = lambda v: v * v
def then2(): globals()["isinstance"] = lambda v, kind: False
## np_rebound_to_another_module
import types
xp = np
fake = types.SimpleNamespace(sum=lambda v: 5.0 * v[0], sin=lambda v: math.cos(v))
def f(x): return xp.sum(x) * xp.sin(x[0])
def then1():
    global xp
    xp = fake
def then2():
    global xp
    xp = np
## backend_switch
class Backend:
    def __init__(self, lib): self.lib = lib
    def norm(self, v): return self.lib.sqrt(self.lib.sum(v * v))
    def fill(self, a, b):
        out = self.lib.zeros(2); out[0] = a; out[1] = b
        return out
be = Backend(np)
def f(x): return be.norm(x)
## is_comparisons_of_functions
def relu(v): return v if v > 0.0 else 0.0 * v
def slope(g, v): return 1.0 if g is relu else math.cos(v) if g is math.sin else 3.0 if g == np.tanh else 5.0
def f(x): return slope(relu, 1.0) * x[0] + slope(math.sin, x[0]) * x[1] + slope(np.tanh, 0.0) * x[0] * x[1] + slope(abs, 0)
## function_keys_and_names
SLOPES = {np.tanh: lambda v: 1.0 - np.tanh(v) ** 2, "sin": lambda v: math.cos(v), len: lambda v: 9.0 * v}
def f(x): return SLOPES[np.tanh](x[0]) * SLOPES[math.sin.__name__](x[1]) * SLOPES[len](1.0) * len(np.sin.__name__)
## closures_over_loops
ACTS = [lambda v, k=k: math.sin(k * v) for k in (1.0, 2.0)]
LATE = [lambda v: math.exp(k * v) for k in (1.0, 2.0)]
def f(x): return ACTS[0](x[0]) * ACTS[1](x[1]) * LATE[0](x[0])
def then1(): ACTS[0] = LATE[0]
## closure_rebound
def make():
    rate, act = 2.0, math.sin
    def set_(r, a):
        nonlocal rate, act
        rate, act = r, a
    def g(x): return rate * act(x[0]) * x[1]
    return g, set_
g, set_ = make()
def f(x): return g(x) + math.exp(x[0])
def then1(): set_(3.0, lambda v: math.cos(v))
def then2(): set_(1.0, np.tanh)
## mutable_defaults
def push(v, into=[]):
    into.append(1); return math.sin(v) * len(into) / len(into)
def f(x, table={"k": 2.0}): return push(x[0]) * table["k"] * x[1]
def then1(): f.__defaults__[0]["k"] = 3.0
def state(): return len(push.__defaults__[0])
## recursion_and_memo
def fact(n): return 1.0 if n < 2 else n * fact(n - 1)
def series(v, n, memo=None):
    memo = {} if memo is None else memo
    if n not in memo: memo[n] = math.sin(v) ** n / fact(n) + (series(v, n - 1, memo) if n else 0.0)
    return memo[n]
def f(x): return series(x[0], 5) * x[1]
## mutual_recursion
def even(v, n): return v if n == 0 else odd(math.sin(v), n - 1)
def odd(v, n): return v if n == 0 else even(math.cos(v), n - 1)
def f(x): return even(x[0], 4) * odd(x[1], 3)
## threads_with_results
import threading, concurrent.futures
def work(k): return math.sqrt(k) + np.zeros(1)[0] + math.sin(0.1 * k)
def f(x):
    with concurrent.futures.ThreadPoolExecutor(2) as pool: done = [*pool.map(work, range(4))]
    return sum(done) * math.sin(x[0]) * x[1]
def state(): return type(work(2)).__name__
## thread_locals_and_contextvars
import threading, contextvars
local, var = threading.local(), contextvars.ContextVar("v", default=2.0)
local.gain = 3.0
def f(x):
    token = var.set(4.0)
    try: return local.gain * math.sin(x[0]) * var.get() * x[1]
    finally: var.reset(token)
## weakrefs_and_callbacks
import weakref
class Node:
    def __init__(self, v): self.v = v
    def at(self): return math.sin(self.v)
HOLD = Node(0.5)
REF = weakref.ref(HOLD)
METHOD = weakref.WeakMethod(HOLD.at)
def f(x): return REF().at() * math.exp(x[0]) + METHOD()() * x[1]
## copy_deepcopy_pickle
import copy, pickle
class Cfg:
    def __init__(self): self.w = [1.0, 2.0]; self.g = {"k": np.ones(2)}
    def at(self, x): return math.sin(x[0]) * self.w[1] + np.sum(self.g["k"] * x)
CFG = Cfg()
def f(x):
    c = copy.deepcopy(CFG); c.w[1] = 3.0; d = copy.copy(CFG)
    return c.at(x) + d.at(x) + pickle.loads(pickle.dumps([1.0, 2.0]))[1] * x[0]
## inspect_signature
import inspect
def g(a, b=2.0, *, c=3.0): return a * b + math.sin(c)
def f(x):
    names = [*inspect.signature(g).parameters]
    n = g.__code__.co_argcount + len(g.__code__.co_varnames) + len(names)
    return g(x[0], c=x[1]) * n
## annotations_and_doc
def g(v: float = math.pi) -> float:
    "Scaled by two."
    return math.sin(v) * len(g.__doc__) * len(g.__annotations__)
def f(x): return g(x[0]) * x[1] * (2.0 if g.__name__ == "g" and g.__module__ == __name__ else 3.0)
## eval_and_exec
SPACE = {"np": np, "math": math}
CODE = compile("math.pi * 2.0 + np.sum(np.arange(3.0))", "<cell>", "eval")
def f(x): return eval(CODE, SPACE) * math.sin(x[0]) + eval("x[1] * 2.0")
## star_import_and_shadowing
from math import *
from numpy import sum, abs
def f(x): return sum(sin(x)) if False else sin(x[0]) * exp(x[1]) + sum(abs(x)) + pow(2.0, 3.0)
## import_in_branches
def f(x):
    if x[0] > 0.0:
        from numpy import exp as e
    else:
        from math import exp as e
    import scipy.special as sp
    return e(x[0]) * sp.erf(x[1])
## conditional_import_fallback
try:
    import quick_math_that_does_not_exist as qm
except ImportError:
    import math as qm
def f(x): return qm.sin(x[0]) * qm.exp(x[1])
## assertion_helpers
def f(x):
    np.testing.assert_allclose(np.zeros(2), 0.0)
    assert math.isfinite(x[0]) and np.all(np.isfinite(x)), "finite"
    assert isinstance(x, np.ndarray) and x.ndim == 1 and x.shape == (2,) and x.dtype == float
    return math.sin(x[0]) * x[1]
## logging_and_warnings
import logging, warnings, io
stream = io.StringIO(); log = logging.Logger("cells"); log.addHandler(logging.StreamHandler(stream))
def f(x):
    log.warning("at %.3f", x[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore"); warnings.warn("quiet")
    return math.sin(x[0]) * x[1]
def state(): return stream.getvalue()
## text_and_formats
def f(x):
    s = f"{x[0]:.1f}|{x[1]}|{x}|{x[0]!r:.3}|{math.sin(x[0])!r:.1}|{[*x]}"
    return len(s.split("|")) * math.sin(x[0]) + len(f"{x[1]:.3f}") * x[1] + s.count("np")
## json_and_keys
import json
def f(x):
    d = json.loads(json.dumps({"a": 2.0, "b": [1, 2]}))
    return d["a"] * math.sin(x[0]) + sum(d["b"]) * x[1]
## sets_and_counters
import collections
def f(x):
    c = collections.Counter("abca"); q = collections.deque([x[0], 2.0], maxlen=2); q.append(x[1])
    od = collections.OrderedDict(a=math.sin(q[0])); dd = collections.defaultdict(lambda: math.exp(0.5))
    cm = collections.ChainMap({"k": x[0]}, {"z": 3.0})
    return c["a"] * od["a"] * dd["new"] + cm["z"] * cm["k"] + len({1, 2, 2}) * q[1]
## itertools_pipeline
import itertools
def f(x):
    acc = [*itertools.accumulate(map(math.sin, x))]
    pairs = [a * b for a, b in itertools.product(x, acc)]
    return sum(itertools.starmap(lambda a, b: a * math.exp(b), zip(x, acc))) + sum(itertools.chain(pairs, [1.0]))
## heap_and_bisect
import bisect, heapq
def f(x):
    h = [math.sin(x[0]), math.cos(x[1]), 0.1]; heapq.heapify(h)
    k = bisect.bisect([0.0, 0.5, 1.0], x[0])
    return heapq.heappop(h) * (k + 1.0) + heapq.nlargest(1, h)[0] * x[1]
## operator_module
import operator
get, call = operator.itemgetter(1), operator.methodcaller("sum")
attr = operator.attrgetter("T")
def f(x): return get(x) * call(x) + operator.mul(*x) + operator.pow(x[0], 2) + attr(np.outer(x, x))[0, 1]
## statistics_by_hand
def mean(v): return math.fsum(v) / len(v)
def std(v): return math.sqrt(math.fsum((a - mean(v)) ** 2 for a in v) / (len(v) - 1))
def f(x): return mean([*x, 2.0]) * std([*x, 0.3])
## vectorize_and_frompyfunc
soft = np.vectorize(lambda v: math.log1p(math.exp(v)))
def f(x): return np.sum(soft(x)) + np.sum(np.vectorize(lambda a, b=2.0: math.sin(a) * b)(x))
## apply_along_axis_and_piecewise
def f(x):
    m = np.outer(x, [1.0, 2.0, 3.0])
    return np.apply_along_axis(lambda r: math.sin(r[0]) * r.sum(), 1, m).sum() + np.piecewise(x, [x > 0.0], [lambda v: v ** 2, lambda v: -v]).sum()
## einsum_and_linalg_names
from numpy.linalg import inv, det, norm as n2
from numpy import einsum, linspace as grid
def f(x):
    a = np.array([[2.0 + x[0] ** 2, x[1]], [0.3, 3.0]])
    return det(a) + einsum("ij,j->", inv(a), x) + n2(x) * grid(0.0, 1.0, 3).sum()
## item_and_tolist
def f(x): return (x[None] @ x[:, None]).item() * math.sin(x.tolist()[0]) + sum(v.item() for v in x)
## float_and_int_conversions
def f(x):
    k = int(abs(float(np.floor(3.7))))
    return float(x[0]) * k + float(np.sum(x)) * len(range(int(2.9))) + round(2.6) * x[1]
## type_dispatch_by_table
import numbers
KINDS = {float: lambda v: math.sin(v), np.float64: lambda v: math.cos(v), np.ndarray: lambda v: np.sum(v)}
def f(x): return KINDS[type(x[0])](x[0]) * KINDS[type(x)](x) * KINDS[type(float(x[1]))](x[1]) * isinstance(x[0], numbers.Real)
## hasattr_duck_typing
def size(v): return v.shape[0] if hasattr(v, "shape") and v.shape else len(v) if hasattr(v, "__len__") else 1
def f(x): return size(x) * size(x[0]) * size(2 * x[0]) * size(math.sin(x[0])) * size([1, 2, 3]) * x[0] * x[1]
## subclass_of_ndarray_and_float
class Meters(float):
    def doubled(self): return 2.0 * self
class Named(np.ndarray): pass
K = Meters(1.5)
W = np.array([1.0, 2.0]).view(Named)
def f(x): return K.doubled() * math.sin(x[0]) + K * x[1] + np.sum(np.asarray(W) * x)
## user_dict_subclass
class Attr(dict):
    __getattr__ = dict.__getitem__
    def __missing__(self, key): return math.sqrt(4.0)
P = Attr(rate=2.0, act=lambda v: math.tanh(v))
def f(x): return P.rate * P.act(x[0]) + P["none"] * x[1]
def then1(): P["rate"] = 3.0
def then2(): P["act"] = lambda v: np.array([v, 2.0]).sum()
## user_list_subclass
class Chain(list):
    def __call__(self, v):
        for g in self: v = g(v)
        return v
net = Chain([lambda v: math.sin(v), lambda v: v * 2.0])
def f(x): return net(x[0]) * x[1]
def then1(): net.append(lambda v: math.exp(v))
def then2(): net[0] = lambda v: math.cos(v)
## simple_namespace_and_argparse
import types, argparse
NS = types.SimpleNamespace(k=2.0, g=lambda v: math.sin(v))
ARGS = argparse.Namespace(lr=0.5)
def f(x): return NS.k * NS.g(x[0]) + ARGS.lr * x[1]
def then1(): NS.k, ARGS.lr = 3.0, 1.5
def then2(): NS.g = lambda v: math.exp(v)
## class_attributes_change
class Cfg:
    gain = 2.0
    @classmethod
    def scale(cls, v): return cls.gain * math.sin(v)
    @staticmethod
    def act(v): return math.exp(v)
def f(x): return Cfg.scale(x[0]) * Cfg.act(x[1])
def then1(): Cfg.gain = 3.0
def then2(): Cfg.act = staticmethod(lambda v: math.cos(v))
## instance_method_shadowed
class M:
    def act(self, v): return math.sin(v)
m = M()
def f(x): return m.act(x[0]) * x[1]
def then1(): m.act = lambda v: math.exp(v)
def then2(): del m.act
## code_replaced_between
def helper(v): return math.sin(v)
def other(v): return math.exp(v) * np.array([v, 1.0])[1]
def f(x): return helper(x[0]) * x[1]
def then1(): helper.__code__ = other.__code__
def then2(): helper.__defaults__ = (1.0,)
## bound_methods_stored
class M:
    k = 2.0
    def act(self, v): return math.sin(self.k * v)
m = M(); act = m.act; unbound = M.act
table = {"a": m.act, "b": [M().act]}
def f(x): return act(x[0]) * unbound(m, x[1]) + table["a"](0.3) * x[0] + table["b"][0](x[1])
def then1(): M.k = 1.0
## ode_stepper_with_events
class Stepper:
    def __init__(self, rhs, h): self.rhs, self.h, self.events = rhs, h, []
    def run(self, y, n):
        for k in range(n):
            k1 = self.rhs(k * self.h, y); k2 = self.rhs((k + 0.5) * self.h, y + 0.5 * self.h * k1)
            y = y + self.h * k2
            if y[0] > 2.0: self.events.append(k)
        return y
def rhs(t, y):
    out = np.empty_like(y); out[0] = y[1]; out[1] = -math.sin(y[0]) + 0.1 * math.cos(t)
    return out
def f(x): return np.sum(Stepper(rhs, 0.1).run(x, 5) ** 2)
## optimizer_inside
def f(x):
    w = np.zeros(2)
    for k in range(4):
        g = 2.0 * (w - x) + 0.1 * np.sin(w)
        w = w - 0.2 * g
    return np.sum(w * x) + math.exp(w[0])
## complex_and_cmath
import cmath
def f(x):
    z = x[0] + 1j * x[1]
    return abs(z * np.exp(1j * np.pi / 3)) ** 2 + (z * z.conjugate()).real + np.angle(z + 3.0) + cmath.pi
## random_with_seeds
import random
def f(x):
    rng = np.random.default_rng(3); r = random.Random(2)
    return math.sin(x[0]) * rng.normal() + x[1] * r.random() + np.sum(rng.uniform(size=2) * x)
## os_and_time_do_not_matter
import os, time, pathlib
def f(x):
    t = time.perf_counter(); p = pathlib.PurePath("a") / "b"
    return math.sin(x[0]) * len(p.parts) * (x[1] if os.path.join("a", "b") and t >= 0.0 else 0.0)
## functions_of_math_that_are_passed_on
def twice(g, v): return g(g(v))
def f(x): return twice(math.sin, x[0]) * x[1]
## functions_of_math_in_a_table
TABLE = {"sin": math.sin, "exp": math.exp}
def f(x): return TABLE["sin"](x[0]) * TABLE["exp"](x[1])
## functions_of_math_in_attributes
class Neuron:
    kind = staticmethod(math.tanh)
    def __init__(self): self.act = math.sin
    def __call__(self, v): return self.act(v) * self.kind(v)
def f(x): return Neuron()(x[0]) * x[1]
## creators_in_defaults
def fill(v, make=np.zeros):
    y = make(2); y[0] = v
    return y
def f(x): return fill(x[0]).sum() * x[1]
## ufuncs_and_functions_of_arrays_that_are_stored
class Layer:
    def __init__(self, act): self.act, self.norm, self.all = act, np.linalg.norm, {"sum": np.sum}
    def __call__(self, v): return self.all["sum"](self.act(v)) * self.norm(v)
def f(x): return Layer(np.tanh)(x) + sum(g(x[0]) for g in (np.sin, np.exp, np.square))
## main_guard_and_dunder
__version__ = "1.0"
def f(x): return math.sin(x[0]) * len(__version__) * x[1] * (2.0 if __name__ == f.__module__ else 0.0)
if __name__ == "__main__": RESULT = f(np.ones(2))
"""


def _snippets(version):
    """The texts of the cells that a Python has the syntax for, by name."""
    found = {}
    for cell in TEXT.split("\n## ")[1:]:
        head, _, text = cell.partition("\n")
        name, _, least = head.partition(" >= ")
        if not least or version >= tuple(map(int, least.split("."))):
            found[name] = text
    return found


SNIPPETS = _snippets(sys.version_info[:2])
#: Cells that raise: functions of `math`, and those that make arrays, are entered where code calls
#: them by their names alone. Keys and comparisons see Python's and NumPy's own.
REFUSED = {
    "functions_of_math_that_are_passed_on": r"math\.sin\(\).* passed, give lambda v: math\.sin",
    "functions_of_math_in_a_table": r"stored or passed, give lambda v: math\.sin",
    "functions_of_math_in_attributes": r"stored or passed, give lambda v: math\.sin",
    "creators_in_defaults": r"make the array inside the function with np\.zeros",
}
_numbers = itertools.count()


def cell(name, module_name=""):
    """The names of a cell that is run anew, in a module of its own, or as a notebook runs it."""
    number = next(_numbers)
    module = types.ModuleType(module_name or f"cell_of_{name}_{number}")
    sys.modules[module.__name__] = module
    file, text = f"<cell {name} {number}>", SNIPPETS[name]
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    vars(module).update(np=np, math=math)
    exec(compile(text, file, "exec"), vars(module))
    none = {"then1": lambda: None, "then2": lambda: None, "state": lambda: None}
    return types.SimpleNamespace(**{**none, **vars(module)}, of=module)


def differences(f, x):
    """A gradient by central differences, extrapolated; None beside a jump."""

    def slope(k, h):
        e = np.eye(len(x))[k] * h
        return (float(f(x + e)) - float(f(x - e))) / (2 * h)

    pairs = [(slope(k, 5e-4), slope(k, 1e-3)) for k in range(len(x))]
    if any([abs(one - other) > 1e-3 * (1.0 + abs(one)) for one, other in pairs]):
        return None
    return [(4 * one - other) / 3 for one, other in pairs]


def results(own, calls, call):
    """The results of calls with changes between them, and what they have changed."""
    found = []
    for x, change in calls:
        if change:
            getattr(own, change)()
        found.append(call(x.copy()))
    return found, repr(own.state())


def check(name, calls, make, module_name=""):
    """Values and gradients as of the plain function, and what eager calls change."""
    entered = cell(name, module_name)
    found, changed = results(entered, calls, make(entered.f))
    plain, other = cell(name), cell(name)
    wanted, plainly_changed = results(plain, calls, plain.f)
    slopes, _ = results(other, calls, lambda x: differences(other.f, x))
    for (value, gradient), plain_value, slope in zip(found, wanted, slopes, strict=True):
        assert type(value) in (float, np.float64), type(value)
        np.testing.assert_allclose(value, float(plain_value), rtol=1e-10)
        if slope is not None:
            np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)
    assert module_name or changed == plainly_changed, (changed, plainly_changed)
    left = repr(vars(entered.of))
    assert "grad_fn" not in left and "tensor(" not in left


# --- at random ------------------------------------------------------------------------------------


def _compiled(**options):
    return lambda f: tg.compile(f, **options).value_and_grad


def _by_tangents(f):
    """Values and gradients in forward mode."""

    def both(x):
        pairs = [tg.jvp(f, (x,), (e,)) for e in np.eye(2)]
        return pairs[0][0], [slope for _, slope in pairs]

    return both


def _by_rows(f):
    """Gradients of a batch, and the value."""
    gradients = tg.vmap(tg.grad(f))
    return lambda x: (float(tg.value_and_grad(f)(x)[0]), gradients(np.array([x, x]))[1])


#: Ways to a value and a gradient, and whether each call is one of the function.
WAYS = {
    "value_and_grad": (tg.value_and_grad, True),
    "jvp": (_by_tangents, False),
    "vmap": (_by_rows, False),
    "compile": (_compiled(), False),
    "compile, never verified": (_compiled(verify="never"), False),
    "compile, native": (_compiled(native=True), False),
}


def _drawn(draw, all_changes):
    """Calls at random points, some twice, with the changes before them."""
    calls, changes = [], ["then1", "then2"]
    for k in range(draw.randint(2, 6)):
        x = np.array([draw.uniform(-1.0, 1.5), draw.uniform(-1.0, 1.5)])
        change = changes.pop(0) if k and changes and draw.random() < 0.5 else ""
        calls.append((calls[-1][0] if k and draw.random() < 0.3 else x, change))
    return calls + [(x, change) for change in changes if all_changes]


def main(rounds=1000, seed=1):
    draw, names = random.Random(int(seed)), sorted({*SNIPPETS} - {*REFUSED})
    tg.config.enter = True
    warnings.simplefilter("ignore")
    own = sys.modules["__main__"]
    for _ in range(int(rounds)):
        name, way = draw.choice(names), draw.choice(sorted(WAYS))
        make, is_counted = WAYS[way]
        module_name = "" if is_counted else draw.choice(["__main__", "cell_of_a_notebook"])
        calls = _drawn(draw, name.startswith("mock"))  # which have to be taken out
        try:
            check(name, calls, make, module_name)
        except Exception:
            print(name, way, calls, flush=True)
            raise
        finally:
            sys.modules["__main__"] = own
            for one in [one for one in sys.modules if one.startswith("cell_of_")]:
                del sys.modules[one]
    print(f"{rounds} rounds, {len(names)} cells: as the plain functions")


if __name__ == "__main__":
    main(*sys.argv[1:])
