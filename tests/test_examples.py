"""The examples: what they compute, not what they print."""

import importlib.util
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


@pytest.mark.parametrize("name", ["rosenbrock", "index_writes"])
def test_short_examples_end_with_their_assertion(name):
    example(name).main()


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
    gradient_of = tg.value_and_grad(lynx_hare.negative_log_likelihood)
    result, _ = lynx_hare.fit(gradient_of, np.log(lynx_hare.START), True)
    assert result.success
    assert f"{result.fun:.4f}" == "-42.7406"
    rates = [0.5400, 0.0272, 0.7966, 0.0237]
    assert np.allclose(np.exp(result.x[:4]), rates, rtol=0, atol=5e-5)
    assert np.allclose(np.exp(result.x[4:6]), [34.60, 5.844], rtol=0, atol=[5e-3, 5e-4])
    assert np.allclose(np.exp(result.x[6:]), [0.2184, 0.2201], rtol=0, atol=5e-5)
    errors = lynx_hare.standard_errors(lambda theta: gradient_of(theta)[1], result.x)
    assert np.all((errors > 0.05) & (errors < 0.2))
