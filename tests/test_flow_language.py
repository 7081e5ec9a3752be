"""Functions of many kinds read from their bytecode: right as called, or refused, never wrong."""

# ruff: noqa: B007, B008, B023, B905, C408, C416, C417, E711, E731, PIE810, PLR, RET, SIM, UP, F841

import collections
import dataclasses
import enum
import functools

import numpy as np
import pytest
from test_flow_reading import check, read_for_vectors

from tapegrad._flow.reading.errors import Refused


class Mode(enum.Enum):
    A = 1
    B = 2


MODE = Mode.B
QUEUE = collections.deque([1, 2])
FLAGS = (1, 2, 3)
SCALE = np.float64(2.0)
N64 = np.int64(3)
ZERO = np.array(2.5)


class P:
    def __init__(self, v):
        self.v = v

    @property
    def h(self):
        return self.v / 2

    @classmethod
    def c(cls, v):
        return v * 3

    def __len__(self):
        return 3

    def __eq__(self, o):
        return True


class Prop:
    def __init__(self, v):
        self.x = v

    @property
    def x(self):
        return self._x * 7

    @x.setter
    def x(self, v):
        self._x = v


class Q(P):
    def __init__(self, v):
        super().__init__(v)


@dataclasses.dataclass
class D:
    a: float
    b: float = 2.0

    def s(self):
        return self.a * self.b


class Sub(D):
    pass


class At:
    def __getattr__(self, n):
        return 5.0


class Slot:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


def try_prop(x):
    return P(x[0]).h * x[1]


def try_cls(x):
    return P(x[0]).c(x[1])


def try_cls2(x):
    return P.c(x[1])


def try_set(x):
    return Prop(x[0]).x


def try_super(x):
    return Q(x[0]).v


def try_data(x):
    return D(x[0]).s() + Sub(x[1], b=x[2]).s()


def try_at(x):
    return At().foo * x[0]


def try_slot(x):
    return Slot(x[0]).v


def try_len(x):
    return len(P(1)) * x[0]


def try_eq(x):
    return x[0] if P(1) == None else x[1]


def try_enum(x):
    return x[0] if MODE is Mode.B else x[1]


def try_enum2(x):
    return x[0] if MODE == Mode.A else x[1]


def try_deque(x):
    return x[0] * len(QUEUE)


def try_deque2(x):
    return x[0] if QUEUE else x[1]


def try_flags(x):
    return sum([x[k] for k in FLAGS])


def try_np(x):
    return x[0] * SCALE + x[1] ** N64 + ZERO * x[2]


def try_npdiv(x):
    return x[0] / (SCALE - 2.0)


def try_try(x):
    try:
        y = x[0] / 0.0
    except ZeroDivisionError:
        y = x[1]
    return y * 2


def try_try2(x):
    d = {"a": x[0]}
    try:
        y = d["b"]
    except KeyError:
        y = x[1]
    return y * 2


def try_raise(x):
    if x[0] < 0:
        raise ValueError
    return x[0] * 2


def try_objs(x):
    bs = []
    for v in x:
        bs.append(P(v))
    return bs[0].v * bs[1].v


def try_objs2(x):
    a = P(x[0])
    b = a
    b.v = x[1]
    a.w = x[2]
    return a.v * b.w


def try_objloop(x):
    prev = P(x[0])
    t = 0.0
    for v in x:
        cur = P(v)
        t += prev.v * cur.v
        prev = cur
    return t


def try_tuple(x):
    t = (x[0], x[1])
    u = t
    t += (x[2],)
    return u[1] * t[2] * len(t)


def try_tupidx(x):
    t = (x[0], x[1], x[2])
    s = 0.0
    for k in range(-3, 3):
        s += t[k] * k
    return s


def try_fstr(x):
    d = {}
    for k in range(3):
        d[f"k{k}"] = x[k]
    return d["k1"] * d["k2"]


def try_ternary(x):
    return (x[0] if x[1] > 0 else x[2]) * 3


def try_andor(x):
    y = x[0] and x[1]
    z = (x[0] > 0) or x[2]
    return y * 2 + (x[3] if z else 0.0)


def try_not(x):
    return x[0] * (not x[1] > 0)


def try_chain(x):
    return x[0] * (0 < x[0] < 1) + x[1] * (x[0] > x[1] > x[2])


def try_star(x):
    a, *b = [x[0], x[1], x[2]]
    return a * b[1]


def try_nest(x):
    t = 0.0
    for i in range(4):
        for j in range(i):
            if x[j] > x[i]:
                continue
            if j > 2:
                break
            t += x[i] * x[j]
        else:
            t += x[i]
    return t


def try_set_(x):
    return x[0] * len({1, 2})


def try_mul(x):
    v = [0.0] * 3
    w = v
    w[1] = x[0]
    u = [x[1]] * 2
    u[0] = x[2]
    return v[1] * u[0] * u[1]


def try_lol(x):
    r = [[0.0] * 3] * 3
    r[0][1] = x[0]
    return r[2][1] * x[1]


def try_bigloop(x):
    out = []
    for k in range(50):
        out.append([x[k % 4], k])
    out[3][0] = x[1] * 5
    c = out[7]
    c[1] = 3
    return out[3][0] * out[7][1]


def try_alias_arena(x):
    out = []
    for k in range(10):
        out.append([x[k % 4]])
    a = out[2]
    out[2] = [x[0] * 9]
    a.append(x[1])
    out[3] = a
    out[3][0] = x[3] * x[2]
    return out[2][0] * a[0] * a[1] + out[3][0] * len(out[3])


def try_popgrow(x):
    s = [x[0]]
    n = 0
    while s and n < 40:
        v = s.pop()
        n += 1
        if v < 3.0 and len(s) < 10:
            s.append(v + 1.0)
            s.append(v * 1.5 + 0.5)
    t = 0.0
    for v in s:
        t += v
    return t + n * x[1]


def try_copy(x):
    a = [x[0], x[1]]
    b = a[:]
    c = list(a)
    d = a.copy()
    a[0] = x[2]
    return b[0] * c[0] * d[0] * a[0]


def try_arrcopy(x):
    y = x * 1.0
    z = y.copy()
    w = y[:]
    y[0] = x[1] * x[2]
    return z[0] * w[0]


def try_T(x):
    m = np.zeros((2, 3))
    m[0, 1] = 3.0
    n = m.T
    n[2, 1] = 5.0
    r = m[1]
    r[0] = 7.0
    m[:, 1] += 1.0
    return (m * x[0]).sum() + n[1, 0] * x[1] + n[0, 1] * x[2]


def try_bcast(x):
    m = np.ones((3, 1)) * x[:3]
    v = m + x[:3].sum()
    m -= v
    return (m * m).sum()


def try_overlap(x):
    y = x * 1.0
    y[1:] = y[:-1]
    y[:2] += y[2:]
    return (y * y * WW).sum()


WW = np.array([1.0, 2.0, 3.0, 4.0])


def try_maskarr(x):
    return (x * (x > 0)).sum() + ((x > 0) + (x < 1)).sum() * x[0]


def try_wherearr(x):
    return np.where(x > 0, x * x, -x).sum()


def try_powf(x):
    h = 0.5
    s = 0.0
    for k in range(4):
        s += h**k * x[k]
        h = h * 0.9
    return s


def try_zdiv(x):
    h = 1.0
    for k in range(3):
        h = h - 0.5
    return x[0] / (h + 0.5)


def try_intdiv(x):
    s = 0.0
    for k in range(-3, 4):
        s += x[0] * (k // 2) + x[1] * (k % 3) + x[2] * (-k // 3)
    return s


def try_shift(x):
    s = 0.0
    for k in range(4):
        s += x[k] * (k << 1)
    return s


def try_isnum(x):
    k = 0
    for v in x:
        k = k + 1 if v > 0 else 0.5
    return x[0] * (k // 2)


def try_strin(x):
    return x[0] if "a" in "abc" else x[1]


def try_in(x):
    s = 0.0
    for k in range(5):
        if k in (1, 3):
            s += x[k % 4]
    return s


def try_dictloop(x):
    d = {"a": x[0], "b": x[1]}
    for k in d:
        d[k] = d[k] * 2
    return d["a"] * d["b"]


def try_dictnum(x):
    d = {}
    for k in range(4):
        d[k] = x[k]
    return d[0] * d[3]


def try_dictget(x):
    d = {"a": x[0]}
    return d.get("a", 0.0) * d.get("b", x[1])


def try_gen2(x):
    def g():
        s = 0.0
        for v in x:
            s += v
            yield s

    a = g()
    t = 0.0
    for p, q in zip(a, x):
        t += p * q
    for p in a:
        t += p
    return t


def try_genclos(x):
    k = 2.0
    g = (v * k for v in x)
    k = 3.0
    return total_of(g)


def total_of(it):
    t = 0.0
    for v in it:
        t = t + v
    return t


def try_genfree(x):
    def mk():
        sc = x[0] * 2
        return (sc * v for v in x)

    return total_of(mk())


def try_map(x):
    return total_of(map(lambda v: v * v, x))


def try_nonlocal(x):
    n = 0

    def inc():
        nonlocal n
        n += 1
        return n

    return x[0] * inc() + x[1] * inc() + x[2] * n


def try_rec(x):
    def f(k):
        return x[0] if k == 0 else x[k] * f(k - 1)

    return f(3)


def try_abs(x):
    return abs(-3) * x[0] + abs(x[1])


def try_npclip(x):
    return np.clip(x, 0, 1).sum()


def try_maxint(x):
    return x[0] * max(1, 2.5) + x[1] * min(x[2], 0)


def try_none2(x):
    p = None
    q = None
    for v in x:
        if v > 0:
            if p is None:
                p = v
            else:
                q = v
    return (p if p is not None else 1.0) * (q if q is not None else x[0])


def try_noneret(x):
    def find():
        for v in x:
            if v > 100:
                return v

    r = find()
    return x[0] if r is None else r


def try_kwonly(x):
    def f(a, b=2.0):
        return a * b

    return f(b=x[0], a=x[1]) + f(x[2])


def try_globalfn(x):
    return helper(x, k=2)


def helper(x, *, k):
    return x[0] * k


def try_decor(x):
    return wrapped(x[0])


def deco(f):
    @functools.wraps(f)
    def g(v):
        return f(v) * 2

    return g


@deco
def wrapped(v):
    return v * v


def try_power(x):
    return x[0] ** 2 + x[1] ** 3 + abs(x[2]) ** 0.5 + 2 ** x[3]


def try_int(x):
    return int(2.7) * x[0] + int(abs(x[1]) * 3) * x[2]


def try_floormod(x):
    return x[0] // 0.3 * x[1] + x[1] % 0.7


def try_del(x):
    a = [x[0], x[1]]
    del a[0]
    return a[0]


def try_insert(x):
    a = [x[0]]
    a.insert(0, x[1])
    a.extend([x[2], x[3]])
    b = [*a, x[0]]
    return a[0] * a[3] + b[1] * b[4]


def try_consts(x):
    w = [1.0, 2.0, 3.0, 4.0]
    s = 0.0
    for a, b in zip(w, x):
        s += a * b
    w[0] = x[1]
    return s * w[0]


def try_lognorm(x):
    return np.linalg.norm(x - x[0]) + np.max(x)


def try_maxtie(x):
    return np.max(x * 0)


def try_argwrite(x):
    x[0] = x[1] * 3
    return (x * x).sum()


def try_argwrite2(x):
    y = x
    y[0] = x[1] * 3
    return (x * x).sum()


def try_bool2(x):
    f = False
    for v in x:
        f = f or v > 2
        f |= v < -1
    return x[0] if f else x[1]


def try_xor(x):
    f = False
    for v in x:
        f = f ^ (v > 0)
    return x[0] if f else x[1]


def try_negb(x):
    return x[0] * -(x[1] > 0)


def try_invb(x):
    return x[0] * (~(x[1] > 0))


def try_invb2(x):
    f = True
    for v in x:
        f = f and v > -10
    return x[0] * ~f


def try_sumbool(x):
    return sum([v > 0 for v in x]) * x[0]


def try_cmpnone(x):
    return x[0] if x == None else x[1]


def try_is(x):
    a = [x[0]]
    b = a
    return x[0] if a is b else x[1]


def try_2it(x):
    it = iter(x)
    t = 0.0
    for v in it:
        t += v
        for w in it:
            t += 2 * w
            break
    return t


def try_enumiter(x):
    it = iter([x[0], x[1], x[2]])
    t = 0.0
    for k, v in enumerate(it):
        t += k * v
    for v in it:
        t += v
    return t


def try_while_else(x):
    k = 0
    while k < 3:
        if x[k] < -5:
            break
        k += 1
    else:
        return x[0] * k
    return x[1]


def try_float(x):
    return float(x[0]) * 2


def try_float2(x):
    one = [x[0]]
    return float(one[0]) * x[1]


def try_loopdef(x):
    fs = None
    t = 0.0
    for k in range(3):

        def f(v):
            return v * k

        if k == 0:
            fs = f
        t += fs(x[k]) + f(x[0])
    return t


def try_step(x):
    return (x[::2] * x[1::2]).sum() + x[::-1][0] * x[:-1:3].sum() + (x[2::5]).sum()


def try_strings(x):
    state, last = "up", "none"
    total = 0.0
    for value in x:
        if state == "up":
            total += value * 2
            state = "down" if value > 0.5 else "rest"
        elif state != "rest":
            total -= value * value
            last = state
            state = "up" if value < 0 else "down"
        elif last == "down" or state == "never":
            state = last
        else:
            total += value
            state = "up"
    return total + (x[0] if state == "up" else x[1] ** 2)


def try_string_truth(x):
    state = ""
    for value in x:
        if value > 0:
            state = "a"
    return x[0] if state else x[1]


def try_string_options(x):
    a, b = "p", "q"
    total = 0.0
    for value in x:
        if value > 0:
            a, b = b, a
        elif value < -1:
            b = "r"
        total += value * (1 if a == "p" else 2) * (3 if b == "q" else 5)
    return total


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "any"])
@pytest.mark.parametrize("name", [name for name in [*globals()] if name.startswith("try_")])
@pytest.mark.filterwarnings("ignore")
def test_right_or_refused(name, exact):
    f = globals()[name]
    try:
        read_for_vectors(f, exact)
    except Refused:
        assert name in REFUSED
        return
    assert name not in REFUSED
    check(f, exact, may_leave=name in LEFT)


REFUSED = frozenset(
    """
    try_at try_cls try_cmpnone try_del try_deque try_deque2 try_dictnum try_enumiter try_eq
    try_float try_float2 try_fstr try_gen2 try_invb try_invb2 try_is try_len try_lol
    try_loopdef try_maskarr try_negb try_npclip try_objloop try_objs try_prop try_rec
    try_set try_set_ try_shift try_slot try_star try_super try_try try_try2
    """.split()
)
LEFT = frozenset("try_raise try_maxtie".split())
