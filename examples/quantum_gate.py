"""Find control pulses that make a CNOT gate of two coupled qubits.

The qubits exchange excitations all the time; the controls are fields along x and y on each of them,
constant over each of 24 steps. The gate is the product of the matrix exponentials of the steps, and
what is minimised is one minus its fidelity, |trace(CNOT^H U) / 4|^2, by L-BFGS-B with the gradient
of the compiled function through complex arithmetic and `expm`.

Run it with `python examples/quantum_gate.py`; the picture is saved as quantum_gate.png.
"""

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg
from tapegrad.scipy.linalg import expm

STEPS, DURATION, LARGEST = 24, 6.0, 3.0
NAMES = ("x of qubit 1", "y of qubit 1", "x of qubit 2", "y of qubit 2")
ONE = np.eye(2)
X = np.array([[0, 1], [1, 0]])
Y = np.array([[0, -1j], [1j, 0]])
CONTROLS = np.array([np.kron(X, ONE), np.kron(Y, ONE), np.kron(ONE, X), np.kron(ONE, Y)]) / 2
COUPLING = (np.kron(X, X) + np.kron(Y, Y)) / 2
CNOT = np.eye(4)[[0, 1, 3, 2]]
PICTURE = "quantum_gate.png"


def propagators(fields):
    """Return the unitary matrices (STEPS, 4, 4) of the steps; `fields` has shape (STEPS, 4)."""
    return expm(-1j * DURATION / STEPS * (COUPLING + np.tensordot(fields, CONTROLS, 1)))


def gate(fields):
    """Return the unitary matrix of the whole pulse: the last step stands first."""
    product = np.eye(4)
    for step in propagators(fields):
        product = step @ product
    return product


def infidelity(fields):
    """Return 1 - |trace(CNOT^H U) / 4|^2, which does not depend on the phase of the gate U."""
    overlap = np.trace(CNOT.T @ gate(np.reshape(fields, (STEPS, 4)))) / 4
    return 1 - np.abs(overlap) ** 2


def optimise(function, start):
    """Minimise within the bounds of the fields; return SciPy's result and the values on the way."""
    history = [float(function.value_and_grad(start)[0])]
    result = minimize(
        function.value_and_grad,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-LARGEST, LARGEST)] * len(start),
        callback=lambda intermediate_result: history.append(intermediate_result.fun),
        options={"ftol": 1e-15, "gtol": 1e-8, "maxiter": 500},
    )
    return result, history


def populations(fields):
    """Return the probabilities of the four basis states over time, the start being |10>."""
    states = [np.eye(4)[2]]
    for step in propagators(fields):
        states.append(step @ states[-1])
    return np.abs(states) ** 2


def save_picture(fields, history, path=PICTURE):
    """Draw the pulses, the populations that they drive, and the infidelity on the way."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    times = np.linspace(0, DURATION, STEPS + 1)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for name, field in zip(NAMES, fields.T, strict=True):
        axes[0].stairs(field, times, label=name, baseline=None, lw=1.8)
    axes[0].set(xlabel="time", ylabel="field", title="Pulses")
    axes[0].legend(fontsize=8)
    for name, population in zip(("00", "01", "10", "11"), populations(fields).T, strict=True):
        axes[1].plot(times, population, label=f"|{name}>", lw=1.8)
    axes[1].set(xlabel="time", ylabel="probability", title="From |10> to |11>")
    axes[1].legend(fontsize=8)
    axes[2].semilogy(np.maximum(history, 1e-16), color="black")
    axes[2].set(xlabel="iteration", ylabel="1 - fidelity", title="Optimisation")
    for one in axes:
        one.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Optimise, check the gradient and the gate, and draw."""
    compiled = tg.compile(infidelity)
    start = 0.3 * np.random.default_rng(0).standard_normal(STEPS * 4)
    direction = np.cos(np.arange(len(start)))
    along = compiled.grad(start) @ direction
    ends = [infidelity(start + h * direction) for h in (1e-5, -1e-5)]
    expected = (ends[0] - ends[1]) / 2e-5
    print(f"derivative along a direction: {along:.10f}, by differences {expected:.10f}")
    assert np.isclose(along, expected, rtol=1e-7)
    result, history = optimise(compiled, start)
    print(f"1 - fidelity: {history[0]:.4f} before, {result.fun:.1e} after {result.nit} iterations")
    fields = result.x.reshape(STEPS, 4)
    made = gate(fields)
    print(np.round(np.abs(made) ** 2, 4))
    assert result.fun < 1e-8
    assert np.allclose(np.abs(made), CNOT, atol=1e-3)
    save_picture(fields, history)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
