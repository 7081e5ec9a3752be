"""Copies, pickles, text, files and pictures of tensors; np.testing; numbers made whole."""

import copy
import io
import math
import pickle
import warnings

import numpy as np
import pytest
from compiled import counts

import tapegrad as tg
from tapegrad import nn

VALUE = np.array([0.25, 1.75, -0.5])


def leaf(value=VALUE):
    return tg.tensor(value, requires_grad=True)


# --- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_keep_the_derivative(copied):
    def f(x):
        parameters = copied({"a": x, "b": [x[0], x * 2.0]}) if copied is copy.deepcopy else None
        if parameters is None:
            return np.sum(copied(x) * x) + copied(x[0]) * copied(x * 2.0)[1]
        return np.sum(parameters["a"] * x) + parameters["b"][0] * parameters["b"][1][1]

    wanted = 2.0 * VALUE + np.array([2.0 * VALUE[1], 2.0 * VALUE[0], 0.0])
    np.testing.assert_allclose(tg.grad(f)(VALUE), wanted)
    c = tg.compile(f)
    for x in (VALUE, VALUE[::-1].copy(), VALUE * 2.0):
        np.testing.assert_allclose(c.grad(x), tg.grad(f)(x))


def test_a_copy_has_memory_of_its_own():
    for x in (tg.tensor(VALUE), leaf() * 1.0, tg.tensor(np.asfortranarray(np.ones((2, 3))))):
        made = copy.copy(x)
        assert made.flags.f_contiguous == x.flags.f_contiguous
        before = x.tolist()
        made[0] = 9.0
        assert x.tolist() == before


def test_a_deep_copy_of_an_input_is_another_input():
    x = leaf()
    (x * x).sum().backward()
    other = copy.deepcopy(x)
    assert other.requires_grad and other.is_leaf and other.grad is None
    (other * 3.0).sum().backward()
    assert other.grad.tolist() == [3.0] * 3 and x.grad.tolist() == (2.0 * VALUE).tolist()
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1] and not copy.deepcopy(tg.tensor(VALUE)).requires_grad
    recorded = copy.deepcopy(x * 2.0)
    recorded.sum().backward()
    assert x.grad.tolist() == (2.0 * VALUE + 2.0).tolist()


def test_modules_are_copied_and_pickled_with_their_parameters():
    model = nn.Linear(3, 2)
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert all(isinstance(p, nn.Parameter) for p in made.parameters())
        assert [p.tolist() for p in made.parameters()] == [p.tolist() for p in model.parameters()]
        made(tg.tensor(np.ones((1, 3)))).sum().backward()
        assert all(p.grad is not None for p in made.parameters())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol):
    for x in (
        tg.tensor(VALUE),
        leaf(),
        tg.tensor(np.float32([[1, 2]])),
        tg.tensor([1, 2]),
        tg.tensor(2.0),
    ):
        made = pickle.loads(pickle.dumps(x, protocol))
        assert made.tolist() == x.tolist() and made.dtype == x.dtype and made.shape == x.shape
        assert made.requires_grad == x.requires_grad
    for x in (leaf() * 2.0, leaf()[0], leaf()[:2]):
        with pytest.raises(TypeError, match=r"its derivative would be lost; pickle t.detach\(\)"):
            pickle.dumps(x, protocol)
    with pytest.raises(TypeError, match="its derivative would be lost"):
        tg.grad(lambda x: np.sum(pickle.loads(pickle.dumps(x))))(VALUE)


# --- text and files -------------------------------------------------------------------------------


def test_text():
    x = leaf()
    assert np.array2string(x, precision=1) == np.array2string(VALUE, precision=1)
    assert np.array_repr(x) == np.array_repr(VALUE) and np.array_str(x) == np.array_str(VALUE)
    assert (
        f"{x[0]:.3f} {x[1]:8.1e} {x.sum():+}" == f"{VALUE[0]:.3f} {VALUE[1]:8.1e} {VALUE.sum():+}"
    )
    assert np.format_float_positional(x[0]) == "0.25"
    assert np.format_float_scientific(x[1] * 2.0, precision=2) == "3.5e+00"
    with pytest.raises(TypeError, match=r"the format '.2f' applies to numbers, .* np.array2string"):
        f"{x:.2f}"


def test_text_inside_transforms():
    seen = []

    def f(x):
        seen.append((f"{x[0]:.2f}", np.array2string(x), np.format_float_positional(x[1])))
        return np.sum(x * x)

    np.testing.assert_allclose(tg.grad(f)(VALUE), 2.0 * VALUE)
    assert seen == [("0.25", "[ 0.25  1.75 -0.5 ]", "1.75")]


@pytest.mark.parametrize("make", [leaf, lambda: leaf() * 1.0, lambda: tg.tensor(VALUE)])
def test_files(make):
    for save, load in {
        (np.save, np.load),
        (np.savez, lambda file: np.load(file)["arr_0"]),
        (np.savez_compressed, lambda file: np.load(file)["arr_0"]),
        (np.savetxt, np.loadtxt),
    }:
        file = io.BytesIO()
        save(file, make())
        file.seek(0)
        assert load(file).tolist() == VALUE.tolist()
    file = io.BytesIO()
    np.savez(file, a=make(), b=VALUE)
    file.seek(0)
    assert np.load(file)["a"].tolist() == VALUE.tolist()


def test_what_writes_files_is_no_program(tmp_path):
    def f(x):
        np.save(tmp_path / "x.npy", x)
        return np.sum(x * x)

    c = tg.compile(f)
    for x in (VALUE, VALUE * 2.0, VALUE * 3.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(c.grad(x), 2.0 * x)
        assert np.load(tmp_path / "x.npy").tolist() == x.tolist()


# --- np.testing -----------------------------------------------------------------------------------


def test_numpys_testing_takes_recorded_tensors():
    x = leaf() * 1.0
    np.testing.assert_allclose(x, VALUE)
    np.testing.assert_allclose(VALUE, x, rtol=1e-12)
    np.testing.assert_array_equal(x, VALUE)
    np.testing.assert_array_almost_equal(x, VALUE)
    np.testing.assert_almost_equal(x[0], 0.25)
    np.testing.assert_equal(x, VALUE)
    np.testing.assert_array_less(x, VALUE + 1.0)
    np.testing.assert_array_max_ulp(x, VALUE)
    for check in (np.testing.assert_allclose, np.testing.assert_array_equal):
        with pytest.raises(AssertionError, match="Mismatched elements"):
            check(x, VALUE + 1.0)

    def f(x):
        np.testing.assert_allclose(x, VALUE)
        return np.sum(x * x)

    np.testing.assert_allclose(tg.grad(f)(VALUE), 2.0 * VALUE)
    with pytest.raises(AssertionError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        c = tg.compile(f)
        c(VALUE)
        c(VALUE)
        c(VALUE * 2.0)


# --- pictures -------------------------------------------------------------------------------------


def _drawings(x):
    y = np.sin(x)
    z = np.outer(x, y)
    return {
        "line": lambda a: a.plot(x, y, "k--"),
        "lines": lambda a: a.plot(z),
        "scatter": lambda a: a.scatter(x, y, c=y, s=x * 10.0),
        "histogram": lambda a: a.hist(y, bins=4),
        "image": lambda a: a.imshow(z),
        "error bars": lambda a: a.errorbar(x, y, yerr=0.1 * x),
        "filled": lambda a: a.fill_between(x, y - 1.0, y + 1.0),
        "bars": lambda a: a.bar(x, y),
        "contours": lambda a: a.contourf(x, x, z),
        "limits": lambda a: (a.axhline(y[1]), a.set_xlim(x[0], x[3])),
        "numbers": lambda a: a.plot([y[0], y[1]]),
    }


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, made = plt.subplots()
    yield made
    figure.canvas.draw()
    plt.close(figure)


@pytest.mark.parametrize("name", _drawings(tg.tensor(np.ones(4))))
def test_recorded_tensors_are_drawn(name, axes):
    _drawings(tg.tensor(np.linspace(0.1, 1.0, 6), requires_grad=True))[name](axes)


def test_what_is_drawn_are_the_values(axes):
    x = leaf()
    (line,) = axes.plot(x, x * 2.0)
    assert line.get_xdata().tolist() == VALUE.tolist()
    assert line.get_ydata().tolist() == (2.0 * VALUE).tolist()
    before = line.get_xdata().copy()
    with tg.no_grad():
        x[0] = 7.0
    assert line.get_xdata().tolist() == before.tolist()


def test_a_transform_draws_what_is_detached(axes):
    def f(x, values):
        axes.plot(values(x))
        return np.sum(x * x)

    with pytest.raises(TypeError, match="its derivative would be lost"):
        tg.grad(f)(VALUE, lambda x: x)
    assert tg.grad(f)(VALUE, lambda x: x.detach()).tolist() == (2.0 * VALUE).tolist()


def test_only_matplotlib_itself_gets_values():
    pytest.importorskip("matplotlib")
    for take in (np.asarray, lambda t: t.to_numpy(), np.ma.masked_invalid):
        with pytest.raises(TypeError, match="its derivative would be lost"):
            take(leaf())
    assert tg.tensor(VALUE).to_numpy().tolist() == VALUE.tolist()


# --- numbers made whole ---------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [math.floor, math.ceil, math.trunc, int])
def test_whole_numbers_warn_and_are_guards(whole):
    x = leaf([1.75, -0.5])
    with pytest.warns(RuntimeWarning, match=rf"^{whole.__name__}\(\) of a recorded tensor loses"):
        assert (whole(x[0]), type(whole(x[0]))) == (whole(1.75), int)
    assert whole(tg.tensor(-2.5)) == whole(-2.5) and whole(x.detach()[1]) == whole(-0.5)
    with pytest.raises(TypeError, match="needs a tensor with one element"):
        whole(x)


@counts
def test_programs_are_guarded_by_the_whole_number():
    """Other numbers with the same whole one are no other variant."""
    recorded = []

    def f(x):
        recorded.append(1)
        k = round(x[0])
        return x[1] ** k + np.sum(x)

    c = tg.compile(f, verify="never")
    for first, recordings in ((1.9, 1), (2.1, 1), (2.4, 1), (3.3, 2), (2.2, 2), (3.1, 2)):
        x = np.array([first, 1.5, 0.3])
        np.testing.assert_allclose(
            c.grad(x), [1.0, 1.0 + round(first) * 1.5 ** (round(first) - 1), 1.0]
        )
        assert len(recorded) <= recordings  # a graph serves other whole numbers, too


def test_rounding():
    x = leaf()
    assert round(x[1]) == 2 and type(round(x[1])) is int
    assert round(tg.tensor(np.float32(2.5))) == 2 and round(x.sum(), 1).item() == 1.5
    assert tg.grad(lambda x: round(x * 3.0, 1) * x)(0.5) == 1.5
    with pytest.raises(
        TypeError,
        match=r"round\(\) needs a tensor with one element; .* shape \(3,\): use np.round",
    ):
        round(x, 2)


def test_complex(monkeypatch):
    assert complex(tg.tensor(1.5)) == 1.5
    with pytest.warns(RuntimeWarning, match=r"complex\(\) of a recorded tensor"):
        complex(leaf()[0])
    assert tg.grad(lambda x: complex(x).real)(1.0) == 1.0
    monkeypatch.setattr(tg.config, "enter", False)
    with pytest.raises(TypeError, match=r"complex\(\) of a recorded tensor loses its derivative"):
        tg.grad(lambda x: complex(x).real)(1.0)


def test_quotients_and_remainders():
    x = leaf([1.75, -0.5, 2.0])
    quotient, rest = divmod(x, 0.7)
    assert quotient.tolist() == [2.0, -1.0, 2.0]
    np.testing.assert_allclose(rest, [0.35, 0.2, 0.6])
    assert divmod(x[0], 1)[1].item() == 0.75 and divmod(3.0, x[2])[0].item() == 1.0
    np.testing.assert_array_equal((x // 0.7) * 0.7 + x % 0.7, x)
