"""Classes, instances, enumerations, identity."""

import dataclasses
import enum


class Box:
    """An object that functions change."""

    kinds = 2

    def __init__(self, value):
        self.value, self.count = value, 0

    def add(self, more):
        self.value = self.value + more
        self.count += 1

    @staticmethod
    def twice(value):
        return 2 * value

    @property
    def half(self):
        return self.value / 2


def instance(x):
    box = Box(x[0])
    for value in x:
        if value > 0:
            box.add(value)
    return box.value * box.count * box.kinds + box.twice(x[1])


class Mode(enum.Enum):
    A = 1
    B = 2


MODE = Mode.B


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


def try_cmpnone(x):
    return x[0] if x == None else x[1]


def try_is(x):
    a = [x[0]]
    b = a
    return x[0] if a is b else x[1]
