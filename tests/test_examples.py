"""The examples: what they compute, not what they print."""

import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(name):
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["rosenbrock", "index_writes", "homography", "compiled_fit"])
def test_short_examples_end_with_their_assertion(name):
    example(name).main()


def test_homography_gradients_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    homography = example("homography")
    inputs = [homography.homographies(3), *homography.grid(8, 6)]
    theirs = [torch.tensor(a, requires_grad=True) for a in inputs]
    u, v = homography.with_broadcasting(*theirs)
    (u * u + u * v).sum().backward()
    for way in (homography.with_repeat, homography.with_broadcasting):
        ours = homography.gradients(way, 8, 6, 3)
        for mine, tensor in zip(ours, theirs, strict=True):
            expected = tensor.grad.numpy()
            assert np.allclose(mine, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_homography_advice_names_the_copies_and_their_bytes():
    homography = example("homography")
    batch, height, width = 4, 24, 32
    found = {}
    for way in (homography.with_repeat, homography.with_broadcasting):
        with tg.autograd.profiler.profile() as prof:
            homography.gradients(way, width, height, batch)
        found[way] = prof.advice
    assert found[homography.with_broadcasting] == []
    copies = [(one.text.split()[0], one.rows, one.nbytes) for one in found[homography.with_repeat]]
    one_array = batch * height * width * 8 + 24 + 3 * 16  # a row, two references and the result
    assert copies == [
        ("tile", 9, 9 * one_array),
        ("repeat", 1, one_array),
        ("repeat", 1, one_array),
    ]
    lines, first = inspect.getsourcelines(homography.with_repeat)
    named = [lines[one.place[1] - first] for one in found[homography.with_repeat]]
    assert all(
        call in text for call, text in zip(("tile(", "repeat(", "repeat("), named, strict=True)
    )


def test_lynx_hare_gradient_equals_central_differences():
    nll = example("lynx_hare").negative_log_likelihood
    theta = np.log(example("lynx_hare").START)
    value, gradient = tg.value_and_grad(nll)(theta)
    assert value == pytest.approx(nll(theta), rel=1e-14)
    for k, shift in enumerate(1e-5 * np.eye(8)):
        central = (nll(theta + shift) - nll(theta - shift)) / 2e-5
        assert gradient[k] == pytest.approx(central, rel=1e-7)


def test_lynx_hare_fit_reaches_the_known_optimum():
    lynx_hare = example("lynx_hare")
    compiled = tg.compile(lynx_hare.negative_log_likelihood)
    result, _ = lynx_hare.fit(compiled.value_and_grad, np.log(lynx_hare.START), True)
    assert result.success
    assert f"{result.fun:.4f}" == "-42.7406"
    rates = [0.5400, 0.0272, 0.7966, 0.0237]
    assert np.allclose(np.exp(result.x[:4]), rates, rtol=0, atol=5e-5)
    assert np.allclose(np.exp(result.x[4:6]), [34.60, 5.844], rtol=0, atol=[5e-3, 5e-4])
    assert np.allclose(np.exp(result.x[6:]), [0.2184, 0.2201], rtol=0, atol=5e-5)
    errors = lynx_hare.standard_errors(compiled.grad, result.x)
    assert np.all((errors > 0.05) & (errors < 0.2))


def test_compiled_fit_is_differentiated_on_both_sides_of_its_branches():
    compiled_fit = example("compiled_fit")
    decades, winds = compiled_fit.measured(sites=3)
    assert 0 < np.sum(winds == compiled_fit.STOP) < len(winds)
    compiled = tg.compile(compiled_fit.negative_log_likelihood)
    for shape in (0.0, 0.1, 0.0, -0.02, 0.1):
        theta = np.array([29.0, 0.5, 1.5, shape])
        value, gradient = compiled.value_and_grad(theta, decades, winds)
        assert value == pytest.approx(density_value(theta, decades, winds), rel=1e-9)
        for k, shift in enumerate(1e-5 * np.eye(4)):
            ends = [
                density_value(theta + sign * shift, decades, winds, centre=shape)
                for sign in (1, -1)
            ]
            assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-8)


def density_value(theta, decades, winds, centre=None):
    """The negative log-likelihood from the textbook's distribution and density."""
    location, drift, log_scale, shape = theta
    z = (winds - location - drift * decades) / np.exp(log_scale)
    near = abs(shape if centre is None else centre) < 1e-3
    t = np.exp(-z + shape * z**2 / 2) if near else (1 + shape * z) ** (-1 / shape)
    density = np.exp(-log_scale) * t ** (1 + shape) * np.exp(-t)
    return -np.mean(np.log(np.where(winds < 45.0, density, 1 - np.exp(-t))))
