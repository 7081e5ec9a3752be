"""The ways in which tapegrad evaluates a function, as text, and what they must give.

In an expression `f` is the function, `p` a point, `k` how many of its arguments are differentiated,
`A` their numbers, `v` the direction of tangents.
"""

from typing import NamedTuple

PREAMBLE = '''
def whole(d, *data):
    """f with its differentiated arguments as one."""
    return f(*d, *data)


def product(g, t):
    """Of elements, of complex ones as pairs of real numbers."""
    return (np.conj(t) * g).real if np.iscomplexobj(t) else g * t


def along(p, k, A, v):
    """The derivative of f along v, by reverse mode, as a function."""
    def derivative(*d):
        gradients = tg.grad(f, A)(*d, *p[k:])
        return sum(np.sum(product(g, t)) for g, t in zip(gradients, v))
    return derivative


def backward(p, k, times):
    """Gradients of backward passes over one tape, which add up."""
    tensors = [tg.tensor(a, requires_grad=True) for a in p[:k]]
    made = f(*tensors, *p[k:])
    times = times if getattr(made, "requires_grad", False) else 0  # else no input is read
    for left in reversed(range(times)):
        (made / times).backward(retain_graph=left > 0)
    return tuple(np.zeros_like(a) if t.grad is None else t.grad.numpy() for t, a in zip(tensors, p))


def rows(p, k, A):
    """The last of three rows that one sweep gives."""
    def several(*d):
        made = f(*d, *p[k:])
        return np.stack([made * 0.5, -made, made])
    return tuple(row[-1] for row in tg.jacobian(several, A)(*p[:k]))


def loaded(c, p):
    """By the file; eagerly where this call or its conversion in `save` was refused."""
    with tempfile.TemporaryDirectory() as folder:
        if not c._reason:
            c.save(folder + "/program")
        if c._reason:  # a file has the branches before
            return c.value_and_grad(*p)
        return tg.load(folder + "/program").value_and_grad(*p)
'''


class Mode(NamedTuple):
    """`gives` is what the result is; `needs` says of which programs it is asked.

    "outside" are those that need no transform: `tapegrad.numpy.zeros` is a plain array elsewhere.
    """

    name: str
    setup: str
    expression: str
    gives: str
    needs: tuple = ()


_HVP = "c.hvp(p[:k], v, *p[k:])"
_FORWARD = "tg.jvp(lambda *d: f(*d, *p[k:]), p[:k], v)"
_COMPILED = "c = tg.compile(f, argnums=A, native=False)"
_SAVED = _COMPILED + "; c._flows._set_aside = 1"  # a file holds the ways that were recorded
_OUT = "c = tg.compile(out, argnums=A, native=False)"
_NATIVE = "c = tg.compile(f, argnums=A, native=True)"
_SQRT = 'c = tg.compile(f, argnums=A, native=True, memory="sqrt")'

EAGER = [
    Mode("eager gradient", "", "tg.value_and_grad(f, A)(*p)", "both"),
    Mode("eager backward()", "", "backward(p, k, 1)", "gradient", ("outside",)),
    Mode("eager backward() three times", "", "backward(p, k, 3)", "gradient", ("outside",)),
    Mode("eager jvp", "", _FORWARD, "jvp"),
    Mode("eager vjp", "", "tg.vjp(lambda *d: f(*d, *p[k:]), *p[:k])[1](1.0)", "gradient"),
    Mode("eager second", "", "tg.grad(along(p, k, A, v), A)(*p[:k])", "second"),
    Mode("eager jvp of grad", "",
         "tg.jvp(lambda *d: tg.grad(f, A)(*d, *p[k:]), p[:k], v)[1]", "second"),
    Mode("eager grad of jvp", "",
         "tg.grad(lambda *d: tg.jvp(lambda *e: f(*e, *p[k:]), d, v)[1], A)(*p[:k])", "second"),
    Mode("eager hessian", "", "tg.hessian(f, A)(*p)", "hessian", ("small", "real")),
    Mode("eager, several seeds", "", "rows(p, k, A)", "gradient"),
    Mode("eager hvp", "", "tg.hvp(whole)(p[:k], v, *p[k:])", "second", ("real",)),
    Mode("eager jacobian", "", "tg.jacobian(out, A)(*p)", "jacobian", ("array", "small")),
]  # fmt: skip
INTERPRETED = [
    Mode("compiled gradient", _COMPILED, "c.value_and_grad(*p)", "both"),
    Mode("compiled value", _COMPILED, "c(*p)", "value"),
    Mode("compiled hessian", _COMPILED, "c.hessian(*p)", "hessian", ("small", "real")),
    Mode(
        "compiled hvp",
        _COMPILED.replace("f, argnums=A", "whole"),
        _HVP,
        "second",
        ("short", "real"),
    ),
    Mode("compiled jvp", _COMPILED, "c.jvp(p, v)", "jvp", ("no data", "short")),
    Mode("compiled vjp", _COMPILED, "c.vjp(*p)[1](1.0)", "gradient", ("no data", "short")),
    Mode("compiled jacobian", _OUT, "c.jacobian(*p)", "jacobian", ("array", "small")),
    Mode("compiled map", _COMPILED, "c.map(*[np.stack([a, a]) for a in p])", "map"),
    Mode("compiled, saved", _SAVED, "(c.value_and_grad(*p), loaded(c, p))[1]", "both"),
]
NATIVE = [
    Mode("native gradient", _NATIVE, "c.value_and_grad(*p)", "both"),
    Mode("native value", _NATIVE, "c(*p)", "value"),
    Mode("native hvp", _NATIVE.replace("f, argnums=A", "whole"), _HVP, "second", ("short", "real")),
    Mode("native hessian", _NATIVE, "c.hessian(*p)", "hessian", ("tiny", "real")),
    Mode("native, memory of square root", _SQRT, "c.value_and_grad(*p)", "both", ("loops",)),
    Mode("native takes over", "c = tg.compile(f, argnums=A)",
         "[c.value_and_grad(*p) for _ in range(70)][-1]", "both"),
]  # fmt: skip
