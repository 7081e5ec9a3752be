"""`np.errstate`, `np.seterr` and warnings that are errors, with recorded values."""

import asyncio
import contextvars
import threading
import warnings

import numpy as np
import pytest
from compiled import programs, same

import tapegrad as tg
from tapegrad._core.tensor import operators, runtime
from tapegrad._program.dispatch import takeover


@pytest.fixture(autouse=True)
def _nothing_compiles():
    """Numba changes the filters of warnings, which all threads share, while it compiles."""
    for future in [*takeover._under_way]:
        future.exception()


#: Text of expressions of x, values at which they meet what NumPy has an error for.
NUMBERS = {
    "1.0 / x[0]": [0.0, 2.0],
    "np.log(x[0])": [-1.0, 2.0],
    "np.log(x[1] * x[0])": [0.0, 2.0],
    "np.sqrt(x[0])": [-1.0, 2.0],
    "np.exp(x[0])": [1000.0, 2.0],
    "np.arcsin(x[0])": [2.0, 2.0],
    "x[0] ** -1": [0.0, 2.0],
    "x[0] ** x[1]": [0.0, -1.0],
    "x[0] * x[1]": [1e200, 1e200],
    "x[0] / x[1]": [0.0, 0.0],
    "x[0] - x[1]": [np.inf, np.inf],
    "x[0] + x[1]": [1.7e308, 1.7e308],
    "np.arctanh(x[0])": [1.0, 2.0],
    "x[0] ** 0.5": [-1.0, 2.0],
    "x[0] % x[1]": [1.0, 0.0],
    "x[0] // x[1]": [1.0, 0.0],
    "abs(np.log(x[0]))": [-1.0, 1.0],
}
ARRAYS = {
    "np.sum(1.0 / x)": [0.0, 2.0],
    "np.sum(np.log(x))": [1.0, -1.0],
    "np.sum(np.sqrt(x))": [1.0, -1.0],
    "np.sum(np.exp(x))": [1.0, 1000.0],
    "np.sum(x ** -1.0)": [0.0, 1.0],
    "np.sum(x * x)": [1e200, 1.0],
    "np.sum(x / x)": [0.0, 1.0],
    "np.sum(x)": [1.7e308, 1.7e308],
    "x.sum()": [1.7e308, 1.7e308],
    "x @ x": [1e200, 1.0],
    "np.dot(x, x)": [1e200, 1.0],
    "np.prod(x)": [1e200, 1e200],
    "np.mean(x)": [1.7e308, 1.7e308],
    "np.sum(np.arctanh(x))": [0.5, 1.0],
    "np.sum(x % x)": [1.0, 0.0],
    "np.sum(np.subtract(x, x))": [np.inf, 1.0],
    "np.sum(np.log1p(x))": [-2.0, 1.0],
    "np.cumsum(x)[-1]": [1.7e308, 1.7e308],
    "np.linalg.norm(x / x)": [0.0, 1.0],
    "np.sum(np.hypot(x, x))": [1.5e308, 1.0],
    "np.sum(np.add.reduce(x))": [1.7e308, 1.7e308],
    "np.sum(in_place(x))": [0.0, 1.0],
}
EVERY = {**NUMBERS, **ARRAYS}


def in_place(x):
    y = x * 1.0
    y /= x
    return y


def function_of(text):
    return eval(f"lambda x: {text}", {"np": np, "in_place": in_place})


def outcome(call, how):
    """The error that a call raises, the warnings that it gives, or what it tells `seterrcall`."""
    calls, before = [], np.seterrcall(lambda kind, flag: calls.append(kind))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                call()
            except FloatingPointError as error:
                return str(error)
    finally:
        np.seterrcall(before)
    texts = {str(one.message) for one in caught if "tapegrad" not in str(one.message)}
    return sorted({*texts, *calls})


@pytest.mark.parametrize("how", ["raise", "warn", "call"])
@pytest.mark.parametrize("text", EVERY)
def test_transforms_meet_what_numpy_meets(text, how):
    f, x = function_of(text), np.array(EVERY[text])

    def inside(x):
        with np.errstate(all=how):
            return f(x)

    wanted = outcome(lambda: inside(x), how)
    if not wanted and "np.dot" in text:
        pytest.skip("this BLAS notes no overflow")
    assert wanted, "the example meets nothing"
    for derive in (tg.grad, tg.value_and_grad, tg.jacobian, tg.hessian):
        assert outcome(lambda d=derive: d(inside)(x), how) == wanted
        with np.errstate(all=how):  # around all of it
            assert outcome(lambda d=derive: d(f)(x), how) == wanted
    assert outcome(lambda: tg.jvp(inside, (x,), (x,)), how) == wanted
    assert outcome(lambda: tg.vjp(inside, x)[1](1.0), how) == wanted
    assert runtime.count == 0


@pytest.mark.filterwarnings("ignore:tapegrad.compile")
@pytest.mark.parametrize("how", ["raise", "warn"])
@pytest.mark.parametrize("text", [*list(NUMBERS)[::3], *list(ARRAYS)[::3]])
def test_compiled_functions_meet_what_numpy_meets(text, how):
    f, x = function_of(text), np.array(EVERY[text])

    def inside(x):
        with np.errstate(all=how):
            return f(x)

    wanted = outcome(lambda: inside(x), how)
    c, fine = tg.compile(inside), np.array([0.5, 0.25])
    for _ in range(2):
        same(c.grad(fine), tg.grad(f)(fine))
    assert programs(c) == 0
    plain = tg.compile(f)
    for _ in range(3):
        plain.grad(fine)
    assert programs(plain) == 1
    for _ in range(2):
        assert outcome(lambda: c.grad(x), how) == wanted
        assert outcome(lambda: c(x), how) == wanted
        with np.errstate(all=how):
            assert outcome(lambda: plain.grad(x), how) == wanted
            assert outcome(lambda: plain(x), how) == wanted
            assert outcome(lambda: plain.value_and_grad(x, out=np.empty(2)), how) == wanted
            assert outcome(lambda: plain.hessian(x), how) == wanted
            assert outcome(lambda: plain.map(np.stack([fine, x])), how) == wanted
        with np.errstate(all="ignore"):
            assert outcome(lambda: plain.grad(x), how) == []
    assert programs(plain) == 1


@pytest.mark.parametrize("text", EVERY)
def test_nothing_is_said_by_default_and_where_it_is_ignored(text):
    f, x = function_of(text), np.array(EVERY[text])

    def ignoring(x):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return f(x)

    c = tg.compile(ignoring)
    assert outcome(lambda: tg.grad(ignoring)(x), "ignore") == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            c.grad(np.array([0.5, 0.25]))
    assert programs(c) == 1
    if text in NUMBERS:
        assert outcome(lambda: tg.grad(f)(x), "warn") == []


def test_branches_on_floating_point_errors():
    def f(x):
        try:
            with np.errstate(divide="raise"):
                return 1.0 / x[0]
        except FloatingPointError:
            return x[1] * 5.0

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="computes while NumPy's error state"):
        c.grad(np.array([2.0, 3.0]))
    for x in ([0.0, 2.0], [2.0, 3.0], [0.0, 1.0]):
        x = np.array(x)
        wanted = [0.0, 5.0] if x[0] == 0.0 else [-1.0 / x[0] ** 2, 0.0]
        for found in (tg.value_and_grad(f)(x), c.value_and_grad(x)):
            assert found[0] == f(x)
            same(found[1], np.array(wanted))


def test_seterr_inside_and_outside():
    x = np.array([0.0, 1.0])

    def inside(x):
        before = np.seterr(divide="raise")
        try:
            return np.sum(1.0 / x)
        finally:
            np.seterr(**before)

    before = np.geterr()
    with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
        tg.grad(inside)(x)
    assert np.geterr() == before and runtime.count == 0
    try:
        np.seterr(divide="raise")
        with pytest.raises(FloatingPointError):
            tg.grad(lambda x: np.sum(1.0 / x))(x)
    finally:
        np.seterr(**before)
    same(tg.grad(lambda x: np.sum(1.0 / x))(x), np.array([-np.inf, -1.0]))
    assert runtime.count == 0


def test_print_and_log(capsys):
    class Log:
        texts: list = []

        def write(self, text):
            self.texts.append(text)

    def f(x, how):
        with np.errstate(all=how):
            return np.sum(np.log(x))

    x, before = np.array([0.0, 1.0]), np.seterrcall(Log())
    try:
        tg.grad(lambda x: f(x, "log"))(x)
    finally:
        np.seterrcall(before)
    assert Log.texts == ["Warning: divide by zero encountered in log\n"]


def test_errors_of_a_function_given_to_seterrcall():
    class FoundError(Exception):
        pass

    def found(kind, flag):
        raise FoundError(kind)

    def f(x):
        with np.errstate(all="call", call=found):
            return np.sum(1.0 / x)

    for g in (f, lambda x: f(x[0])):
        with pytest.raises(FoundError, match="divide by zero"):
            tg.grad(g)(np.array([0.0, 1.0]))


def test_warnings_that_are_errors():
    def f(x):
        try:
            return np.log(x[0])
        except RuntimeWarning:
            return -100.0 * x[1]

    def inside(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return f(x)

    x, wanted = np.array([-1.0, 2.0]), np.array([0.0, -100.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(x) == -200.0
        same(tg.grad(f)(x), wanted)
        same(tg.jacobian(f)(x), wanted)
        with np.errstate(invalid="ignore"):
            same(tg.grad(f)(x), np.array([-1.0, 0.0]))
    with np.errstate(all="warn"):
        same(tg.grad(inside)(x), wanted)
    same(tg.grad(f)(x), np.array([-1.0, 0.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "invalid value encountered", RuntimeWarning)
        same(tg.grad(f)(x), np.array([-1.0, 0.0]))
    assert runtime.count == 0


@pytest.mark.parametrize("text", EVERY)
def test_warnings_that_are_errors_are_met_as_by_numpy(text, monkeypatch):
    f, x, fine = function_of(text), np.array(EVERY[text]), np.array([0.5, 0.25])
    g = lambda x: f(x * 1.0)  # noqa: E731
    asked, ask = [], operators._ask
    monkeypatch.setattr(operators, "_ask", lambda *given: (asked.append(1), ask(*given)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            f(x)
        except RuntimeWarning as error:
            for derive in (tg.grad, tg.hessian):
                with pytest.raises(RuntimeWarning, match=str(error)):
                    derive(g)(x)
        asked.clear()
        found = tg.value_and_grad(g)(fine)
        assert bool(asked) is ("norm" in text)
    wanted = tg.value_and_grad(f)(fine)
    same(found[0], wanted[0])
    same(found[1], wanted[1])
    assert runtime.count == 0


def test_warnings_have_the_users_line():
    def f(x):
        with np.errstate(all="warn"):
            return np.sum(np.log(x)) - 1.0 / x[0]

    with pytest.warns(RuntimeWarning, match="divide by zero encountered") as caught:
        tg.grad(f)(np.array([0.0, 1.0]))
    assert {one.filename for one in caught} == {__file__}
    assert len(caught) == 2


def test_derivatives_are_silent():
    """Only values meet errors: 1/(2√0) is no value."""
    f = lambda x: np.sum(np.sqrt(x))
    with np.errstate(all="raise"):
        same(tg.grad(f)(np.array([0.0, 4.0])), np.array([np.inf, 0.25]))
        same(tg.hessian(f)(np.array([0.0, 4.0]))[1, 1], np.float64(-1.0 / 32.0))
        assert tg.jvp(np.sqrt, (0.0,), (1.0,)) == (0.0, np.inf)


def test_composites_meet_what_numpy_meets():
    """Functions that are made of others here, some of which meet more than NumPy's."""
    x = np.array([0.0, 1.0, 2.0])
    with np.errstate(all="raise"):
        for f in (
            lambda x: np.sum(np.sinc(x)),
            lambda x: np.var(x),
            lambda x: np.linalg.norm(x),
            lambda x: np.max(np.where(x > 0.0, x, 1.0)),
            lambda x: np.sum(np.nan_to_num(x)),
            lambda x: np.median(x),
            lambda x: np.logaddexp(x[0], x[1]),
        ):
            assert np.all(np.isfinite(tg.value_and_grad(f)(x)[0]))


def test_functions_of_users_are_called_once():
    calls = []

    def f(x):
        with np.errstate(all="raise"):
            return np.sum(np.apply_along_axis(lambda row: (calls.append(1), row * 2.0)[1], 0, x))

    tg.grad(f)(np.ones((2, 3)))
    assert len(calls) == 3


def test_other_threads_have_a_state_of_their_own():
    found = []
    with np.errstate(all="raise"):
        work = lambda: found.append(tg.grad(lambda x: 1.0 / x)(0.0))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with pytest.raises(FloatingPointError):
            tg.grad(lambda x: 1.0 / x)(0.0)
    assert found == [-np.inf]


def test_numbers_of_numpy_beside_recorded_ones():
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
            tg.grad(lambda x: np.float64(3.0) / x)(0.0)


def test_tasks_have_the_state_in_which_they_were_made():
    async def task():
        return tg.grad(lambda x: 1.0 / x)(0.0)

    async def both():
        with np.errstate(all="raise"):
            loud = asyncio.create_task(task())
        quiet = asyncio.create_task(task())
        return await asyncio.gather(loud, quiet, return_exceptions=True)

    loud, quiet = asyncio.run(both())
    assert type(loud) is FloatingPointError and quiet == -np.inf
    assert runtime.count == 0


def test_a_copied_context_that_becomes_quiet_ends_no_other_state():
    def in_the_copy():
        with np.errstate(all="ignore"):
            return tg.grad(lambda x: 1.0 / x)(0.0)

    with np.errstate(all="raise"):
        copy = contextvars.copy_context()
        assert copy.run(in_the_copy) == -np.inf
        copy.run(np.seterr, all="ignore")
        with pytest.raises(FloatingPointError):
            tg.grad(lambda x: 1.0 / x)(0.0)
    assert runtime.count == 0


def test_a_copied_context_stays_loud_when_the_original_is_quiet():
    tg.tensor(0.0)
    with np.errstate(all="raise"):
        copy = contextvars.copy_context()
    with pytest.raises(FloatingPointError):
        copy.run(tg.grad(lambda x: 1.0 / x), 0.0)
    with pytest.raises(FloatingPointError):
        copy.run(tg.compile(lambda x: 1.0 / x).grad, 0.0)
    assert runtime.count == 1
    del copy
    assert runtime.count == 0


def test_a_thread_that_ends_in_a_loud_state_leaves_none():
    found = []

    def work():
        np.seterr(all="raise")
        try:
            tg.grad(lambda x: 1.0 / x)(0.0)
        except FloatingPointError:
            found.append(runtime.count)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [1] and runtime.count == 0


def test_a_block_that_outlives_the_transform():
    kept = []

    def f(x):
        block = np.errstate(over="ignore")
        block.__enter__()
        kept.append(block)
        return x * x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tg.grad(f)(3.0) == 6.0
    for block in kept[::-1]:
        block.__exit__()
    assert runtime.count == 0
    assert tg.grad(lambda x: 1.0 / x)(0.0) == -np.inf


def test_complex_numbers():
    def f(x):
        z = (x + 0.0) + 1j * x
        with np.errstate(all="raise"):
            return abs(1.0 / z)

    for g in (f, lambda x: np.sum(f(x))):
        x = np.float64(0.0) if g is f else np.zeros(2)
        with pytest.raises(FloatingPointError):
            g(x)
        with pytest.raises(FloatingPointError):
            tg.grad(g)(x)


def test_decorators_and_nested_states():
    @np.errstate(all="raise")
    def inverse(x):
        return 1.0 / x

    def nested(x):
        with np.errstate(all="raise"):
            with np.errstate(all="ignore"):
                y = 1.0 / x
            return np.exp(-y)

    for derive, x in ((tg.grad, 0.0), (tg.vmap, np.array([1.0, 0.0]))):
        with pytest.raises(FloatingPointError):
            derive(inverse)(x)
    assert tg.value_and_grad(nested)(0.0)[0] == 0.0
    same(tg.vmap(tg.grad(inverse))(np.array([2.0, 1.0])), np.array([-0.25, -1.0]))
    assert runtime.count == 0


def test_tensors_outside_of_transforms():
    t = tg.tensor([0.0, 1.0], requires_grad=True)
    with np.errstate(all="raise"):
        for call in (lambda: 1.0 / t, lambda: np.log(t), lambda: t[0] ** -1, lambda: t / t):
            with pytest.raises(FloatingPointError):
                call()
    assert np.isinf((1.0 / t)[0].item())
