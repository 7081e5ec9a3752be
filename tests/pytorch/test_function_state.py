"""What `ctx` of a `Function` holds when its derivative is differentiated; numbers as results."""

import weakref

import numpy as np
import pytest
from compiled import programs, same
from torch_side import leaf

import tapegrad as tg
from tapegrad import autograd

X = np.array([0.7, -0.4])


def function(forward, backward, **more):
    methods = dict(forward=forward, backward=backward, **more)
    return type("Made", (autograd.Function,), methods).apply


def plain(x):
    return x if isinstance(x, np.ndarray) else x.detach().numpy()


def saved(ctx, x):
    ctx.save_for_backward(x)
    return plain(x) ** 3


def attribute(ctx, x):
    ctx.x = x
    return plain(x) ** 3


def detached(ctx, x):
    ctx.x = x.detach()
    return plain(x) ** 3


def array(ctx, x):
    ctx.x = plain(x)
    return ctx.x**3


def listed(ctx, x):
    ctx.x = [x, 1.0]
    return plain(x) ** 3


PLACES = {
    "saved": (saved, lambda ctx, g: 3.0 * g * ctx.saved_tensors[0] ** 2),
    "attribute": (attribute, lambda ctx, g: 3.0 * g * ctx.x * ctx.x),
    "detached": (detached, lambda ctx, g: 3.0 * g * ctx.x * ctx.x),
    "array": (array, lambda ctx, g: 3.0 * g * ctx.x * ctx.x),
    "listed": (listed, lambda ctx, g: 3.0 * g * ctx.x[0] ** 2),
}


def second_orders(f, x):
    """Second derivatives of a function in every way, and those of its compiled function."""
    c, v = tg.compile(f), np.linspace(1.0, 2.0, len(x)).astype(x.dtype)
    for _ in range(3):
        yield tg.hessian(f)(x) @ v
        yield tg.hvp(f)(x, v)
        yield tg.jvp(tg.grad(f), (x,), (v,))[1]
        yield tg.grad(lambda x: np.sum(tg.grad(f)(x) * v))(x)
        yield c.hessian(x) @ v
        yield c.hvp(x, v)
        t = leaf(tg, x)
        (g,) = autograd.grad(f(t), t, create_graph=True)
        yield autograd.grad(np.sum(g * v), t)[0].numpy()


@pytest.mark.filterwarnings("ignore:.*leaves more than arguments")
@pytest.mark.parametrize("way", PLACES)
def test_arguments_in_ctx_are_arguments(way):
    cube = function(*PLACES[way])
    f = lambda x: np.sum(cube(x) ** 2)
    for found in second_orders(f, X):
        same(found, 30.0 * X**4 * np.linspace(1.0, 2.0, 2))
    same(tg.jvp(f, (X,), (X,))[1], np.sum(6.0 * X**6))


@pytest.mark.parametrize("way", ["saved", "attribute", "detached", "array"])
def test_arguments_in_ctx_make_programs(way, rng):
    cube = function(*PLACES[way])
    c = tg.compile(lambda x: np.sum(cube(x) ** 2))
    for _ in range(4):
        x, v = rng.normal(size=3), rng.normal(size=3)
        same(c.hessian(x), np.diag(30.0 * x**4))
        same(c.hvp(x, v), 30.0 * x**4 * v)
        same(c.jvp((x,), (v,))[1], 6.0 * x**5 @ v)
    assert all(programs(one) == 1 for one in c._derived.values())


def result_array(ctx, x):
    ctx.y = y = np.exp(plain(x))
    return y


def result_tensor(ctx, x):
    ctx.y = y = np.exp(x)
    return y


@pytest.mark.parametrize("forward", [result_array, result_tensor])
def test_results_in_ctx_are_results(forward):
    exp = function(forward, lambda ctx, g: g * ctx.y)
    f = lambda x: np.sum(exp(x) ** 2)
    for found in second_orders(f, X):
        same(found, 4.0 * np.exp(2.0 * X) * np.linspace(1.0, 2.0, 2))


def test_arrays_in_ctx_are_arrays_in_first_derivatives():
    kinds = []

    def backward(ctx, g):
        kinds.append((type(ctx.y), type(ctx.x), type(ctx.parts[0])))
        return g * ctx.y

    def forward(ctx, x):
        ctx.x, ctx.parts = plain(x), (plain(x) ** 2, "text")
        ctx.y = np.exp(ctx.x)
        return ctx.y

    exp = function(forward, backward)
    same(tg.grad(lambda x: np.sum(exp(x)))(X), np.exp(X))
    c = tg.compile(lambda x: np.sum(exp(x)))
    for _ in range(3):
        same(c.grad(X), np.exp(X))
    assert set(kinds) == {(np.ndarray, np.ndarray, np.ndarray)}


def test_a_tensor_returned_as_it_was_given_is_the_argument():
    """Not the result, whose derivative is that of backward."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x

    f = function(forward, lambda ctx, g: -g * ctx.saved_tensors[0])
    h = tg.hessian(lambda x: np.sum(f(x)))(X)
    same(h, -np.eye(2))


# --- what forward has computed --------------------------------------------------------------------


def square_tensor(ctx, x):
    ctx.square = x * x
    return plain(x) ** 3


def square_array(ctx, x):
    ctx.square = plain(x) ** 2
    return plain(x) ** 3


def square_listed(ctx, x):
    ctx.squares = {"a": [plain(x) ** 2]}
    return plain(x) ** 3


def square_saved(ctx, x):
    ctx.save_for_backward(x * x)
    return plain(x) ** 3


COMPUTED = {
    "ctx.square": [square_tensor, square_array],
    "ctx.squares": [square_listed],
    "a tensor in ctx.saved_tensors": [square_saved],
}
OF = {
    "ctx.square": lambda ctx, g: 3.0 * g * ctx.square,
    "ctx.squares": lambda ctx, g: 3.0 * g * ctx.squares["a"][0],
    "a tensor in ctx.saved_tensors": lambda ctx, g: 3.0 * g * ctx.saved_tensors[0],
}


@pytest.mark.filterwarnings("ignore:.*leaves more than arguments")
@pytest.mark.parametrize("what, forward", [(k, f) for k, fs in COMPUTED.items() for f in fs])
def test_second_derivatives_by_what_forward_has_computed_are_refused(what, forward):
    cube = function(forward, OF[what])
    f = lambda x: np.sum(cube(x) ** 2)
    c = tg.compile(f)
    x, v = X, np.ones(2)
    same(tg.grad(f)(x), 6.0 * x**5)
    same(c.grad(x), 6.0 * x**5)
    same(tg.jvp(f, (x,), (v,))[1], np.sum(6.0 * x**5))
    t = leaf(tg, x)
    (g,) = autograd.grad(f(t), t, create_graph=True)  # of first order until it is differentiated
    same(g.detach().numpy(), 6.0 * x**5)
    match = f"tapegrad.Made: a derivative of a derivative needs that of {what}, which forward"
    for second in (
        lambda: tg.hessian(f)(x),
        lambda: tg.hvp(f)(x, v),
        lambda: tg.jvp(tg.grad(f), (x,), (v,)),
        lambda: autograd.grad(g.sum(), t),
        lambda: c.hessian(x),
        lambda: c.hessian(x),
        lambda: c.hvp(x, v),
    ):
        with pytest.raises(NotImplementedError, match=match):
            second()


def test_second_derivatives_that_do_not_need_it_are_right():
    """Masks, integers and numbers of Python are constants, as are the arguments."""

    def forward(ctx, x, w, k):
        ctx.mask, ctx.factor, ctx.w, ctx.order = plain(x) > 0.0, 2.0, w, np.argsort(plain(x))
        ctx.x, ctx.other = x, x * x
        return 2.0 * w * (plain(x) ** 2) * (plain(x) > 0.0)

    def backward(ctx, g):
        assert ctx.order.dtype.kind == "i"
        return g * ctx.factor * 2.0 * ctx.w * ctx.x * ctx.mask, None, None

    f = function(forward, backward)
    w = np.array([3.0, 5.0])
    same(tg.hessian(lambda x: np.sum(f(x, w, 2)))(X), np.diag([12.0, 0.0]))


def test_values_whose_place_depends_on_values():
    """In a program of second derivatives, too: forward saves another argument at other values."""

    def forward(ctx, x, y):
        ctx.x, ctx.y = x, x if plain(x).sum() > 0.0 else y
        return plain(x) ** 2

    def backward(ctx, g):
        return 2.0 * g * (ctx.x + ctx.y), None

    f = function(forward, backward)
    c = tg.compile(lambda x, y: np.sum(f(x, y) ** 2), verify="never")
    eager = tg.hessian(lambda x, y: np.sum(f(x, y) ** 2))
    for k in range(8):
        x, y = np.array([1.0, 2.0]) * (-1) ** k + 0.1 * k, np.array([3.0, 4.0])
        same(c.hessian(x, y), eager(x, y))


# --- constants that forward keeps -----------------------------------------------------------------

W = np.array([3.0, 5.0])


def new_array(ctx, x):
    ctx.w = np.arange(3.0, 3.0 + 2.0 * len(x), 2.0)


def derived(ctx, x):
    ctx.w = np.where(plain(x) != 0.0, 1.0, 0.0) * W  # a mask of floats


def held_tensor(ctx, x):
    ctx.w = tg.tensor(W)


def numbers(ctx, x):
    ctx.w = W.tolist()


CONSTANTS = {
    "global": lambda ctx, x: setattr(ctx, "w", W),
    "new": new_array,
    "mask": derived,
    "tensor": held_tensor,
    "numbers": numbers,
    "float": lambda ctx, x: setattr(ctx, "w", float(W[0])),
}


@pytest.mark.filterwarnings("ignore:.*leaves more than arguments")
@pytest.mark.parametrize("kind", CONSTANTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constants_in_ctx_are_constants(kind, dtype):
    def forward(ctx, x):
        CONSTANTS[kind](ctx, x)
        ctx.x = x
        return (plain(x) ** 3 * np.array(plain(np.asarray(ctx.w)))).astype(dtype)

    def backward(ctx, g):
        np.full(2, plain(np.asarray(ctx.w)))  # a constant is no recorded tensor
        return 3.0 * g * ctx.x**2 * np.asarray(ctx.w).astype(dtype)

    cube = function(forward, backward)
    x, w = X.astype(dtype), W if kind != "float" else np.full(2, W[0])
    f = lambda x: np.sum(cube(x))
    for found in second_orders(f, x):
        np.testing.assert_allclose(found, 6.0 * w * x * [1.0, 2.0], rtol=8.0 * np.finfo(dtype).eps)
    third = tg.grad(lambda x: np.sum(tg.grad(lambda x: np.sum(tg.grad(f)(x)))(x)))
    np.testing.assert_allclose(third(x), 6.0 * w, rtol=8.0 * np.finfo(dtype).eps)


@pytest.mark.filterwarnings("ignore:.*leaves more than arguments")
@pytest.mark.parametrize("x", [X, 0.0 * X, np.ones(2)])
@pytest.mark.parametrize("kind", ["float", "list", "number"])
def test_python_numbers_that_depend_on_arguments_are_refused(kind, x):
    keep = {
        "float": lambda x: float(np.sum(x)),
        "list": lambda x: x.tolist(),
        "number": lambda x: np.sum(x),
    }[kind]

    def forward(ctx, x):
        ctx.s = keep(plain(x))
        return np.sum(np.asarray(ctx.s)) ** 2

    def backward(ctx, g):
        s = ctx.s[0] + ctx.s[1] if kind == "list" else ctx.s
        return g * 2.0 * s * np.ones(2)

    f = function(forward, backward)
    same(tg.grad(f)(x), 2.0 * np.sum(x) * np.ones(2))
    same(tg.jvp(f, (x,), (np.ones(2),))[1], 4.0 * np.sum(x))
    for second in (
        lambda: tg.hessian(f)(x),
        lambda: tg.hvp(f)(x, np.ones(2)),
        lambda: tg.grad(lambda x: tg.jvp(f, (x,), (np.ones(2),))[1])(x),
        lambda: tg.jvp(lambda x: tg.jvp(f, (x,), (np.ones(2),))[1], (x,), (np.ones(2),)),
        lambda: tg.compile(f).hessian(x),
    ):
        with pytest.raises(NotImplementedError, match="that of ctx.s, which forward has computed"):
            second()


def test_constants_beside_others_have_their_own_verdict():
    """Leaf by leaf, also of a result of `save_for_backward`."""

    def forward(ctx, x):
        ctx.save_for_backward(tg.tensor(W), x * x)
        ctx.parts = [W, plain(x) ** 2]
        ctx.x = x
        return plain(x) ** 3 * W

    def by(read):
        f = function(forward, lambda ctx, g: 3.0 * g * read(ctx))
        return tg.hessian(lambda x: np.sum(f(x)))(X)

    same(by(lambda ctx: ctx.x**2 * ctx.saved_tensors[0]), np.diag(6.0 * X * W))
    same(by(lambda ctx: ctx.x**2 * ctx.parts[0]), np.diag(6.0 * X * W))
    for read in (lambda ctx: ctx.parts[1] * W, lambda ctx: ctx.saved_tensors[1] * W):
        with pytest.raises(NotImplementedError, match="which forward has computed"):
            by(read)


def test_forward_is_called_again_where_a_derivative_is_recorded_alone():
    calls = []

    def forward(ctx, x, w):
        calls.append((plain(x).copy(), w.copy()))
        ctx.x, ctx.w = x, 2.0 * w
        return plain(x) ** 2 * w

    square = function(forward, lambda ctx, g: (g * ctx.x * ctx.w, None))
    f = lambda x: np.sum(square(x, W))
    t = leaf(tg, X)
    f(t).backward()
    same(tg.grad(f)(X), 2.0 * X * W)
    same(tg.jvp(f, (X,), (X,))[1], np.sum(2.0 * X * X * W))
    same(tg.jacobian(lambda x: square(x, W))(X), np.diag(2.0 * X * W))
    assert len(calls) == 4
    same(tg.hessian(f)(X), np.diag(2.0 * W))
    assert len(calls) == 7
    for x, w in calls[5:]:
        assert np.all(x != X) and np.allclose(x, X, rtol=1e-5) and np.all(w == W)
    assert np.all(calls[5][0] != calls[6][0])


def test_what_forward_cannot_tell_is_refused():
    """It raises at other arguments, or keeps what exists once for all calls, which is put back."""
    buffer, called = np.empty(2), []

    def raises(ctx, x):
        called.append(x)
        if len(called) > 1:
            raise ValueError("seen")
        ctx.square = 1.0 * plain(x) ** 2
        return plain(x) ** 3

    def shared(ctx, x):
        ctx.square = np.multiply(plain(x), plain(x), out=buffer)
        return plain(x) ** 3

    def draws(ctx, x):
        ctx.square = np.random.default_rng().normal(size=2)
        return plain(x) ** 3

    for forward in (raises, shared, draws):
        cube = function(forward, lambda ctx, g: 3.0 * g * ctx.square)
        t = leaf(tg, X)
        y = np.sum(cube(t))
        with pytest.raises(NotImplementedError, match="that of ctx.square, which forward has"):
            (g,) = autograd.grad(y, t, create_graph=True)
            autograd.grad(g.sum(), t)
    assert len(called) == 2
    np.multiply(X, X, out=buffer)
    t = leaf(tg, X)
    y = np.sum(function(shared, lambda ctx, g: 3.0 * g * ctx.square)(t))
    autograd.grad(y, t, create_graph=True)
    same(buffer, X * X)
    same(autograd.grad(y, t)[0].numpy(), 3.0 * X * X)


@pytest.mark.parametrize("order", [1, 2])
def test_arguments_are_held_no_longer_than_needed(order):
    def forward(ctx, x, w):
        ctx.x, ctx.w = x, 2.0 * w
        return plain(x) ** 2 * w

    square = function(forward, lambda ctx, g: (g * ctx.x * ctx.w, None))

    def derivative():
        w, t = W.copy(), leaf(tg, X)
        y = np.sum(square(t, w))
        if order == 1:
            y.backward()
        else:
            (g,) = autograd.grad(y, t, create_graph=True)
            same(autograd.grad(g.sum(), t)[0].numpy(), 2.0 * W)
        return weakref.ref(w), weakref.ref(t)

    assert [one() for one in derivative()] == [None, None]


# --- numbers --------------------------------------------------------------------------------------

NUMBERS = {
    "float": lambda v: float(np.sum(v**2)),
    "float64": lambda v: np.sum(v**2),
    "int": lambda v: int(np.sum(v) * 4.0),
    "bool": lambda v: bool(np.sum(v) > 0.0),
    "int64": lambda v: np.int64(3),
    "bool_": lambda v: np.sum(v) > 0.0,
    "tuple": lambda v: (float(np.sum(v**2)), 3, True),
    "list": lambda v: [float(np.sum(v**2)), 3.0],
    "ints": lambda v: (int(np.sum(v) * 4.0), 2),
}


def first(out):
    return out[0] if isinstance(out, (tuple, list)) else out


@pytest.mark.filterwarnings("ignore:.*a result of type")
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_results(kind):
    def forward(ctx, x):
        ctx.x = x
        return NUMBERS[kind](plain(x))

    apply = function(forward, lambda ctx, g, *others: 2.0 * g * ctx.x)
    f = lambda x: first(apply(x)) * 3.0
    value = 3.0 * first(NUMBERS[kind](X))
    c = tg.compile(f)
    for _ in range(3):
        for found in (tg.value_and_grad(f)(X), c.value_and_grad(X)):
            assert found[0] == value
            same(found[1], 6.0 * X)
        same(c.hessian(X), 6.0 * np.eye(2))
    same(tg.hessian(f)(X), 6.0 * np.eye(2))
    same(tg.jvp(f, (X,), (np.ones(2),))[1], np.sum(6.0 * X))
    t = leaf(tg, X)
    out = apply(t)
    assert type(out) is type(NUMBERS[kind](X)) or not isinstance(out, (tuple, list))
    (first(out) * 3.0).backward()
    same(t.grad.numpy(), 6.0 * X)
    assert first(apply(X)) == first(NUMBERS[kind](X))
    assert type(first(apply(X))) is not tg.Tensor


def test_numbers_beside_others():
    found = []

    def backward(ctx, *gradients):
        found.extend(gradients)
        return ctx.x * gradients[0]

    def forward(ctx, x):
        ctx.x = x
        return float(np.sum(plain(x))), 3, True, None, "text"

    f = function(forward, backward)
    t = leaf(tg, X)
    y, count, flag, none, text = f(t)
    assert (count, flag, none, text) == (3, True, None, "text")
    assert type(count) is int and type(flag) is bool
    y.backward()
    assert found == [1.0, None, None, None, None]


def test_jvp_may_return_numbers():
    f = function(
        lambda ctx, x: float(np.sum(plain(x))),
        lambda ctx, g: g * np.ones(2),
        jvp=lambda ctx, t: float(np.sum(plain(t))),
    )
    assert tg.jvp(f, (X,), (X,)) == (np.sum(X), np.sum(X))


def test_numbers_make_programs_whatever_their_type():
    """A hinge is an integer where it is 0."""
    f = function(
        lambda ctx, x: (setattr(ctx, "x", x), max(0, float(np.sum(plain(x)))))[1],
        lambda ctx, g: g * (1.0 if plain(ctx.x).sum() > 0.0 else 0.0) * np.ones(2),
    )
    c = tg.compile(lambda x: f(x) * 2.0)
    for x in ([1.0, 2.0], [-1.0, 0.5], [1.0, 1.0], [-1.0, -1.0]):
        value, gradient = c.value_and_grad(np.array(x))
        assert value == max(0.0, 2.0 * sum(x))
        same(gradient, np.full(2, 2.0 * (sum(x) > 0.0)))
    assert programs(c) == 1


@pytest.mark.parametrize(
    "result, message",
    [
        (1.0 + 2.0j, "result 0 of forward is complex; return its real and its imaginary part"),
        (np.array([1.0j]), "result 0 of forward is complex"),
        ({"value": 1.0}, "result 0 of forward is of type dict and holds numbers"),
        (((1.0, 2.0),), "result 0 of forward is of type tuple and holds numbers"),
        (np.float16(1.0), "Made.forward: the result has dtype float16"),
    ],
)
def test_results_whose_derivative_would_be_lost_are_refused(result, message):
    f = function(lambda ctx, x: result, lambda ctx, g: g)
    for call in (lambda: f(leaf(tg, X)), lambda: tg.grad(lambda x: first(f(x)))(X)):
        with pytest.raises(TypeError, match=message):
            call()


def test_constants_named_by_what_forward_returns():
    """`mark_non_differentiable` knows arrays and numbers that become tensors."""

    def forward(ctx, x):
        flags, level = np.sign(plain(x)), float(np.max(plain(x)))
        ctx.mark_non_differentiable(flags, level)
        ctx.x = x
        return flags, level, plain(x) ** 2

    f = function(forward, lambda ctx, a, b, g: 2.0 * ctx.x * g)
    flags, level, square = f(leaf(tg, X))
    assert not flags.requires_grad and not getattr(level, "requires_grad", False)
    assert square.requires_grad
