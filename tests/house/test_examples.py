"""The examples: what they compute, not what they print."""

import importlib.util
import inspect

import numpy as np
import pytest
from source_rules import ROOT

import tapegrad as tg

EXAMPLES = ROOT / "examples"


def example(name):
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["rosenbrock", "index_writes", "homography", "compiled_fit"])
def test_short_examples_end_with_their_assertion(name):
    example(name).main()


@pytest.mark.parametrize("name", ["lens", "leukemia", "nile_level", "orbit_transfer", "truss"])
def test_examples_that_end_with_their_assertion_and_a_picture(name, monkeypatch):
    module = example(name)
    monkeypatch.setattr(module, "save_picture", lambda *args: None)
    module.main()


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


def test_quantum_gate_and_its_gradient_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    quantum_gate = example("quantum_gate")
    fields = 0.5 * np.random.default_rng(7).standard_normal((quantum_gate.STEPS, 4))
    theirs = torch.tensor(fields, requires_grad=True)
    controls, coupling = (
        torch.tensor(one + 0j) for one in (quantum_gate.CONTROLS, quantum_gate.COUPLING)
    )
    hamiltonians = coupling + torch.tensordot(theirs + 0j, controls, 1)
    steps = torch.linalg.matrix_exp(-1j * quantum_gate.DURATION / len(fields) * hamiltonians)
    made = torch.linalg.multi_dot(list(steps.flip(0)))
    cnot = torch.tensor(quantum_gate.CNOT + 0j)
    value = 1 - torch.abs(torch.trace(cnot.T @ made) / 4) ** 2
    value.backward()
    assert np.allclose(quantum_gate.gate(fields), made.detach(), rtol=0, atol=1e-13)
    for function in (quantum_gate.infidelity, tg.compile(quantum_gate.infidelity)):
        mine, gradient = tg.value_and_grad(function)(fields.ravel())
        assert mine == pytest.approx(value.item(), rel=1e-12)
        assert np.allclose(gradient, theirs.grad.ravel(), rtol=0, atol=1e-13)


def test_quantum_gate_optimised_is_a_cnot_up_to_its_phase():
    quantum_gate = example("quantum_gate")
    start = 0.3 * np.random.default_rng(0).standard_normal(quantum_gate.STEPS * 4)
    result, history = quantum_gate.optimise(tg.compile(quantum_gate.infidelity), start)
    assert history[0] > 0.5
    assert result.fun < 1e-8
    made = quantum_gate.gate(result.x.reshape(-1, 4))
    assert np.allclose(made / made[0, 0], quantum_gate.CNOT, rtol=0, atol=1e-3)
    assert np.allclose(made @ made.conj().T, np.eye(4), rtol=0, atol=1e-13)


def test_power_flow_jacobian_is_that_of_the_textbook():
    """Of S = diag(V) conj(I), I = Y V, by the angles and by the magnitudes of V."""
    grid = example("power_flow")
    generator = np.random.default_rng(4)
    unknown = np.concatenate([0.3 * generator.standard_normal(13), generator.uniform(0.9, 1.1, 9)])
    v = grid.voltages(unknown, grid.SET)
    current, unit = grid.Y @ v, v / np.abs(v)
    by_angle = 1j * np.diag(v) @ np.conj(np.diag(current) - grid.Y @ np.diag(v))
    by_size = np.diag(v) @ np.conj(grid.Y @ np.diag(unit)) + np.diag(np.conj(current) * unit)
    powers = np.hstack([by_angle[:, 1:], by_size[:, grid.OTHERS]])
    expected = np.vstack([powers.real[1:], powers.imag[grid.OTHERS]])
    for function in (grid.mismatch, tg.compile(grid.mismatch)):
        mine = tg.jacobian(function)(unknown, grid.SET)
        assert np.allclose(mine, expected, rtol=1e-11, atol=1e-11)


def test_power_flow_losses_are_those_of_the_branches_and_their_slopes_differences():
    grid = example("power_flow")
    jacobian = tg.jacobian(grid.mismatch)
    unknown, errors = grid.solve(grid.SET, jacobian)
    assert errors[-1] < 1e-12
    v = grid.voltages(unknown, grid.SET)
    found = 0.0
    for start, end, r, x, _, ratio in grid.BRANCHES:
        drop = v[int(start) - 1] / ratio - v[int(end) - 1]
        found += 100 * r * np.abs(drop / (r + 1j * x)) ** 2
    assert grid.losses(unknown, grid.SET) == pytest.approx(found, rel=1e-11)
    assert found == pytest.approx(13.39, abs=0.005)
    slopes = tg.grad(grid.losses_of_solution)(grid.SET, unknown, jacobian(unknown, grid.SET))
    for slope, shift in zip(slopes, 1e-4 * np.eye(5), strict=True):
        moved = [grid.SET + shift, grid.SET - shift]
        ends = [grid.losses(grid.solve(held, jacobian)[0], held) for held in moved]
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-5, abs=1e-5)


def test_impedance_fit_finds_the_circuit_with_the_jacobian_of_the_formula():
    fit = example("impedance_fit")
    measured, logs = fit.measurements(), np.log(fit.START)
    _, r1, q, a, warburg = fit.START
    s = 1j * fit.OMEGA
    inner = 1 / r1 + q * s**a
    columns = [
        fit.START[0] + 0 * s,
        1 / r1 / inner**2,
        -q * s**a / inner**2,
        -a * np.log(s) * q * s**a / inner**2,
        warburg * s**-0.5,
    ]
    expected = np.array(columns).T / (fit.NOISE * np.abs(measured))[:, None]
    mine = tg.jacobian(fit.residuals)(logs, fit.OMEGA, measured)
    assert np.allclose(mine, np.vstack([expected.real, expected.imag]), rtol=1e-11, atol=1e-11)
    result = fit.fit(measured)
    parameters, errors = fit.standard_errors(result)
    assert result.success
    assert np.all(np.abs(parameters - fit.TRUE) < 4 * errors)
    assert np.all(errors < 0.05 * fit.TRUE)


def test_deconvolution_blurs_by_a_gaussian_and_has_the_gradient_of_the_formula():
    ndimage = pytest.importorskip("scipy.ndimage")
    sharpen = example("deconvolution")
    image = sharpen.picture()
    blurred = ndimage.gaussian_filter(image, sharpen.WIDTH, mode="wrap", truncate=8.0)
    assert np.allclose(sharpen.blur(image), blurred, rtol=0, atol=1e-6)
    x = np.random.default_rng(1).uniform(size=image.shape)
    down, right = np.diff(x, axis=0)[:, :-1], np.diff(x, axis=1)[:-1]
    length = np.sqrt(down**2 + right**2 + sharpen.ROUNDING**2)
    slopes = np.zeros_like(x)
    slopes[:-1, :-1] -= (down + right) / length
    slopes[1:, :-1] += down / length
    slopes[:-1, 1:] += right / length
    expected = sharpen.blur(sharpen.blur(x) - blurred) + sharpen.WEIGHT * slopes
    for function in (sharpen.objective, tg.compile(sharpen.objective)):
        gradient = tg.grad(function)(x.ravel(), blurred)
        assert np.allclose(gradient.reshape(x.shape), expected, rtol=0, atol=1e-13)


def test_deconvolution_recovers_what_was_blurred():
    sharpen = example("deconvolution")
    true = sharpen.picture()
    seen = sharpen.observe(true)
    found, result = sharpen.recover(seen)
    assert result.success
    assert sharpen.error(found, true) < 0.5 * sharpen.error(seen, true)
    assert 0 <= found.min() <= found.max() <= 1


def test_volatility_smile_has_slopes_of_prices_over_those_of_the_formula():
    """By the volatility the Black-Scholes price has the slope share sqrt(years) density(upper)."""
    smile = example("volatility_smile")
    theta = np.array([0.25, 0.16, 0.35, 0.1])
    expected = np.zeros(4)
    for strike, quoted in zip(smile.STRIKES, smile.QUOTED, strict=True):
        price, slope = tg.value_and_grad(smile.model_price)(theta, strike)
        found = smile.implied_volatility(price, strike)
        assert smile.call_price(smile.SHARE, strike, found) == pytest.approx(price, rel=1e-9)
        width = found * np.sqrt(smile.YEARS)
        upper = (np.log(smile.SHARE / strike) + smile.RATE * smile.YEARS) / width + width / 2
        vega = smile.SHARE * np.sqrt(smile.YEARS / (2 * np.pi)) * np.exp(-(upper**2) / 2)
        expected += 2e4 * (found - quoted) * slope / vega
    for function in (smile.misfit, tg.compile(smile.misfit)):
        assert np.allclose(tg.grad(function)(theta), expected, rtol=1e-8)


def test_market_equilibrium_has_the_slopes_of_the_implicit_function_theorem():
    market = example("market_equilibrium")
    weeks, seen = market.observe()
    theta, week = market.TRUE, weeks[3]
    at = market.equilibrium(week, theta)
    steps = 1e-30j * np.eye(4)  # complex steps
    by_price = np.array([market.excess_demand(at + h[:2], week, theta).imag for h in steps[:2]])
    by_theta = np.array([market.excess_demand(at, week, theta + h).imag for h in steps])
    expected = -np.linalg.solve(by_price.T, by_theta.T)
    found = tg.jacobian(lambda theta: market.equilibrium(week, theta))(theta)
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-12)
    result, errors = market.estimate(weeks[:20], seen[:20])
    assert np.abs(result.jac).max() < 1e-3
    assert np.all(np.abs(result.x - theta) < 4 * errors)


def test_ridge_penalties_move_the_weights_as_the_formula_says():
    ridge = example("ridge_penalties")
    logs = np.linspace(-5.0, -1.0, ridge.FEATURES)
    weights, (features, classes) = ridge.fit(logs), ridge.TRAINING
    chance = 1 / (1 + np.exp(-features @ weights))
    hessian = (features.T * (chance * (1 - chance))) @ features / len(classes)
    hessian += 2 * np.diag(np.exp(logs))
    moved = -np.linalg.solve(hessian, np.diag(2 * np.exp(logs) * weights))
    others, theirs = ridge.OTHER
    slope = others.T @ (1 / (1 + np.exp(-others @ weights)) - theirs) / len(theirs)
    for function in (ridge.objective, tg.compile(ridge.objective)):
        assert np.allclose(tg.grad(function)(logs), moved.T @ slope, rtol=1e-6, atol=1e-9)


def test_epidemic_fit_ends_where_differences_vanish():
    epidemic = example("epidemic")
    result, errors = epidemic.fit()
    assert np.allclose(
        np.exp(result.x), [1.883, 1.913, 1.787, 18.28], rtol=0, atol=[2e-3] * 3 + [0.05]
    )
    assert np.all((errors > 0.005) & (errors < 0.7))
    theta = result.x + np.array([0.1, -0.1, 0.2, 0.1])
    gradient = tg.grad(epidemic.negative_log_likelihood)(theta)
    for k, shift in enumerate(1e-4 * np.eye(4)):
        ends = [epidemic.negative_log_likelihood(theta + h) for h in (shift, -shift)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-4, abs=1e-3)


def test_stiff_reaction_has_the_slopes_of_sensitivity_equations():
    """The sensitivities of the concentrations satisfy linear equations, solved beside them."""
    reaction = example("stiff_reaction")
    rates, integrate = np.exp(reaction.TRUE), pytest.importorskip("scipy.integrate")

    def both(t, state):
        y, s = state[:3], state[3:].reshape(3, 3)
        by_rates = np.array(
            [[-y[0], 0, y[1] * y[2]], [y[0], -(y[1] ** 2), -y[1] * y[2]], [0, y[1] ** 2, 0]]
        )
        moved = reaction.jacobian(t, y, rates) @ s + by_rates * rates
        return np.concatenate([reaction.slopes(t, y, rates), moved.ravel()])

    start = np.concatenate([[1.0], np.zeros(11)])
    times = reaction.TIMES[:18]
    exact = (
        integrate.solve_ivp(both, (0, times[-1]), start, "Radau", times, rtol=1e-9, atol=1e-13)
        .y[3:]
        .reshape(3, 3, -1)
    )
    found = tg.jacobian(lambda logs: reaction.concentrations(logs)[:, :18])(reaction.TRUE)
    assert np.allclose(found, np.moveaxis(exact, 1, 2), rtol=1e-3, atol=1e-6)
