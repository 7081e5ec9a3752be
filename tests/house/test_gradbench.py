"""GradBench's evaluations: the protocol, and results beside closed forms, SciPy and PyTorch."""

import io
import json

import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial.transform import Rotation

from benchmarks.gradbench import __main__ as table
from benchmarks.gradbench import descent, in_torch, inputs, particle, run

#: Evaluation → small inputs. The descents begin near their ends.
SMALL = {
    "gmm": [inputs.gmm(3, 2, 20, 1)],
    "kmeans": [inputs.kmeans(3, 40, 2)],
    "lse": [inputs.lse(30)],
    "llsq": [inputs.llsq(20, 4)],
    "lstm": [inputs.lstm(2, 4, 3)],
    "ba": [inputs.ba(2, 3, 5)],
    "ht": [inputs.ht(2, 6), inputs.ht(2, 6, surface=True)],
    "det": [inputs.det(4)],
    "ode": [inputs.ode(4, 3)],
    "saddle": [inputs.saddle((2e-5, -3e-5))],
    "particle": [inputs.particle(0.577)],
}


@pytest.fixture(autouse=True)
def short_paths(monkeypatch):
    """A particle that makes few and large steps: it is led to the origin by another control."""
    monkeypatch.setattr(particle, "STEP", 2.0)
    particle.prepared.cache_clear()
    yield
    particle.prepared.cache_clear()


def output(evaluation, name, given):
    """The output of a second call, as JSON holds it; of a first one, where programs take long."""
    runs = 1 if evaluation in ("ht", "saddle", "particle") else 2
    found = run.module_of(evaluation).FUNCTIONS[name].evaluate({**given, "min_runs": runs})
    assert found["success"] and len(found["timings"]) == runs
    return json.loads(json.dumps(found["output"]))


def differences(f, x):
    """The Jacobian of a function of a vector, by two central differences."""

    def column(e):
        first, second = ((f(x + h * e) - f(x - h * e)) / (2.0 * h) for h in (2e-4, 1e-4))
        return (4.0 * second - first) / 3.0

    return np.stack([column(e) for e in np.eye(len(x))], axis=-1)


def test_the_inputs_are_those_of_all_functions():
    assert set(SMALL) == set(inputs.TIMED) == set(inputs.EVALUATIONS) == set(in_torch.FORMS)
    for name, functions in inputs.EVALUATIONS.items():
        assert set(run.module_of(name).FUNCTIONS) == set(functions)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")
def test_evaluations_agree_with_pytorch(name):
    pytest.importorskip("torch")
    for given in SMALL[name]:
        for function in inputs.EVALUATIONS[name]:
            call, write = in_torch.FORMS[name][function](given)
            ours = output(name, function, given)
            assert table.disagreement(ours, write(call())) < 1e-11


def test_mixtures():
    (given,) = SMALL["gmm"]
    x, mu, alpha = (np.array(given[name]) for name in ("x", "mu", "alpha"))
    d, likelihood, prior = given["d"], 0.0, 0.0
    for k in range(given["k"]):
        factor = np.diag(np.exp(given["q"][k]))
        factor[np.triu_indices(d, 1)[::-1]] = given["l"][k]
        precision = factor.T @ factor
        normal = stats.multivariate_normal(mu[k], np.linalg.inv(precision))
        likelihood = likelihood + special.softmax(alpha)[k] * normal.pdf(x)
        prior += stats.wishart(d + given["m"] + 1, np.eye(d)).logpdf(precision)
    found = output("gmm", "objective", given)
    np.testing.assert_allclose(found, np.sum(np.log(likelihood)) + prior, rtol=1e-12)


def test_clusters():
    (given,) = SMALL["kmeans"]
    points, centroids = np.array(given["points"]), np.array(given["centroids"])
    squares = np.sum((points[:, None] - centroids) ** 2, axis=2)
    np.testing.assert_allclose(output("kmeans", "cost", given), squares.min(1).sum(), rtol=1e-12)
    nearest = squares.argmin(1)
    means = [points[nearest == k].mean(0) for k in range(len(centroids))]
    np.testing.assert_allclose(output("kmeans", "dir", given), centroids - means, atol=1e-12)


def test_sums_of_exponentials_and_polynomials():
    (given,) = SMALL["lse"]
    np.testing.assert_allclose(output("lse", "primal", given), special.logsumexp(given["x"]))
    np.testing.assert_allclose(output("lse", "gradient", given), special.softmax(given["x"]))
    (given,) = SMALL["llsq"]
    t = np.linspace(-1.0, 1.0, given["n"])
    powers = np.vander(t, len(given["x"]), increasing=True)
    off = powers @ given["x"] - np.sign(t)
    np.testing.assert_allclose(output("llsq", "primal", given), 0.5 * off @ off, rtol=1e-12)
    np.testing.assert_allclose(output("llsq", "gradient", given), powers.T @ off, rtol=1e-12)


def test_a_recurrent_network():
    (given,) = SMALL["lstm"]
    main, extra, state, sequence = map(np.array, run.module_of("lstm").read(given))
    bits, total = 3, 0.0
    for t in range(len(sequence) - 1):
        predicted = sequence[t] * extra[0]
        for layer in range(2):
            for j in range(bits):
                hidden, cell = state[2 * layer, j], state[2 * layer + 1, j]
                of = [predicted[j], hidden, predicted[j], hidden]
                gates = [
                    of[i] * main[2 * layer, i * bits + j] + main[2 * layer + 1, i * bits + j]
                    for i in range(4)
                ]
                forget, entry, leave = special.expit(gates[:3])
                cell = cell * forget + entry * np.tanh(gates[3])
                predicted[j] = state[2 * layer, j] = leave * np.tanh(cell)
                state[2 * layer + 1, j] = cell
        y = predicted * extra[1] + extra[2]
        total += sequence[t + 1] @ (y - np.log(2.0 + np.sum(np.exp(y))))
    found = output("lstm", "objective", given)
    np.testing.assert_allclose(found, -total / (bits * (len(sequence) - 1)), rtol=1e-12)


def test_bundle_adjustment():
    (given,), ba = SMALL["ba"], run.module_of("ba")

    def error(block):
        (camera, x, weight), feature = (block[:11], block[11:14], block[14]), given["feat"]
        x = Rotation.from_rotvec(camera[:3]).apply(x - camera[3:6])
        flat = x[:2] / x[2]
        bent = flat * (1.0 + camera[9] * flat @ flat + camera[10] * (flat @ flat) ** 2)
        return weight * (bent * camera[6] + camera[7:9] - feature)

    one = np.array([*given["cam"], *given["x"], given["w"]])
    found = output("ba", "objective", given)
    np.testing.assert_allclose(found["reproj_error"]["elements"], error(one), rtol=1e-12)
    assert found["w_err"] == {"element": 1.0 - given["w"] ** 2, "repeated": given["p"]}
    found, wanted = output("ba", "jacobian", given), differences(error, one)
    for row in range(2 * given["p"]):
        part = slice(*found["rows"][row : row + 2])
        np.testing.assert_allclose(found["vals"][part], wanted[row % 2], rtol=1e-7, atol=1e-9)
        assert found["cols"][part][0] == 11 * (row // 2 % given["n"])
        assert found["cols"][part][11] == 11 * given["n"] + 3 * (row // 2 % given["m"])
    assert found["vals"][-1] == -2.0 * given["w"] and len(found["rows"]) == 3 * given["p"] + 1
    still = np.zeros((1, 3))
    np.testing.assert_array_equal(ba.rotated(still, np.array([[1.0, 2.0, 3.0]])), [[1, 2, 3]])


@pytest.mark.parametrize("given", SMALL["ht"], ids=["vertices", "surface"])
def test_hand_tracking(given):
    ht, data = run.module_of("ht"), given["data"]
    theta, model = np.array(given["theta"]), data["model"]
    placed, vertices = [], 0.0
    for bone, parent in enumerate(model["parents"]):
        angles, local, finger = np.zeros(3), np.eye(4), (bone - 2) // 4
        if bone >= 2 and (bone - 2) % 4 < 3:
            first = 6 + 4 * finger
            angles[0] = theta[first + [0, 2, 3][(bone - 2) % 4]]
            angles[2] = theta[first + 1] if (bone - 2) % 4 == 0 else 0.0
        # The evaluation's matrix about the second axis is that of the opposite angle.
        local[:3, :3] = Rotation.from_euler("xyz", angles * [1, -1, 1]).as_matrix()
        local = np.array(model["base_relatives"][bone]) @ local
        placed.append(local if parent == -1 else placed[parent] @ local)
        moved = placed[bone] @ model["inverse_base_absolutes"][bone]
        weights = np.array(model["weights"])[:, bone, None]
        vertices = vertices + weights * (np.array(model["base_positions"]) @ moved.T)[:, :3]
    vertices = Rotation.from_rotvec(theta[:3]).apply(vertices) + theta[3:6]
    places = vertices[data["correspondences"]]
    if given["us"]:
        corners = vertices[np.array(model["triangles"])[data["correspondences"]]]
        u, v = np.array(given["us"]).T
        places = np.einsum("pci,cp->pi", corners, [u, v, 1.0 - u - v])
    found = output("ht", "objective", given)
    np.testing.assert_allclose(found, np.ravel(data["points"] - places), rtol=1e-11, atol=1e-12)
    parameters, *others = ht.read(given)
    plain = ht.surface_distances if given["us"] else ht.distances
    wanted = differences(lambda parameters: plain(parameters, *others), parameters)
    np.testing.assert_allclose(output("ht", "jacobian", given), wanted, rtol=1e-7, atol=1e-9)


def test_determinants():
    (given,) = SMALL["det"]
    matrix = np.reshape(given["A"], (4, 4))
    found = output("det", "primal", given)
    np.testing.assert_allclose(found, np.linalg.det(matrix), rtol=1e-12)
    wanted = np.linalg.det(matrix) * np.linalg.inv(matrix).T
    np.testing.assert_allclose(output("det", "gradient", given), wanted.ravel(), rtol=1e-11)


def test_a_chain_of_equations():
    """The method is exact for polynomials of degree 4: y = x₀ … xᵢ tⁱ⁺¹ / (i + 1)! at t = 2."""
    (given,) = SMALL["ode"]
    order = np.arange(1, 5)
    wanted = np.cumprod(given["x"]) * 2.0**order / special.factorial(order)
    np.testing.assert_allclose(output("ode", "primal", given), wanted, rtol=1e-12)
    found = output("ode", "gradient", given)
    np.testing.assert_allclose(found, wanted[-1] / np.array(given["x"]), rtol=1e-12)


def test_nested_derivatives():
    (given,), (control,) = SMALL["saddle"], SMALL["particle"]
    start = np.array(given["start"])
    end = descent.argmin(lambda x: np.sum(x**2), lambda x: 2.0 * x, start)
    np.testing.assert_allclose(output("saddle", "rr", given), [*end, *end], rtol=1e-9)

    def field(f):
        return lambda x: differences(f, x)

    def miss(w):
        return particle.miss(w, field)

    (end,) = descent.argmin(miss, field(miss), np.array([control["w"]]))
    np.testing.assert_allclose(output("particle", "fr", control), end, rtol=1e-7)


def test_the_protocol():
    messages = [
        {"id": 0, "kind": "start", "eval": "lse"},
        {"id": 1, "kind": "define", "module": "lse"},
        {"id": 2, "kind": "evaluate", "module": "lse", "function": "primal", "input": {"x": [0.0]}},
        {"id": 3, "kind": "analysis", "of": 2, "valid": True},
        {"id": 4, "kind": "define", "module": "chess"},
        {"id": 5, "kind": "evaluate", "module": "lse", "function": "dual", "input": {"x": [0.0]}},
        {"id": 6, "kind": "evaluate", "module": "hello", "function": "double", "input": 3},
    ]
    out = io.StringIO()
    run.main(map(json.dumps, messages), out)
    *found, double = [json.loads(line) for line in out.getvalue().splitlines()]
    assert found[0] == {"id": 0, "tool": "tapegrad"} and found[1] == {"id": 1, "success": True}
    assert found[2]["output"] == 0.0 and found[2]["timings"][0]["name"] == "evaluate"
    assert found[3] == {"id": 3} and double == {"id": 6, "success": True, "output": 6.0}
    assert not found[4]["success"] and "no evaluation 'chess'; known: hello" in found[4]["error"]
    assert not found[5]["success"] and "known: primal, gradient" in found[5]["error"]


def test_the_table(capsys, monkeypatch):
    monkeypatch.setattr(table, "TIMED", {"lse": {"n=30": inputs.lse(30)}})
    assert table.chosen(["ode", "lse.primal"]) == {
        "ode": ("primal", "gradient"),
        "lse": ("primal",),
    }
    assert table.main(["lse", "--budget", "0.01"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:4]] == ["`lse` primal", "`lse` gradient"]
    assert table.disagreement([1.0, 2.0], [1.0, 2.001]) > table.TOLERANCE
    assert table.disagreement([1.0], [1.0, 2.0]) == float("inf")
    if in_torch.torch:
        monkeypatch.setattr(table, "disagreement", lambda ours, theirs: 1e-3)
        assert table.main(["lse", "--budget", "0.01"]) == 1
