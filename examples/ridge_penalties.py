"""Choose a ridge penalty for each feature: a fit inside of an objective.

Weights of a logistic regression minimise the loss on training data plus a penalty for each feature;
the penalties minimise the loss of these weights on other data. The inner problem has no formula for
its solution: SciPy's `minimize` finds it in every evaluation, and the derivative of its result is
that of the condition that the gradient is 0 there.

Run it with `python examples/ridge_penalties.py`; the picture is saved as ridge_penalties.png.
"""

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

FEATURES, USEFUL = 12, 4
PICTURE = "ridge_penalties.png"


def draw(count, seed):
    """Return features and classes, 0 or 1; only the first few features tell the class."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((count, FEATURES))
    scores = features[:, :USEFUL] @ np.array([2.0, -1.5, 1.0, -1.0])
    return features, (random.random(count) < 1 / (1 + np.exp(-scores))).astype(float)


TRAINING, OTHER, NEW = draw(60, 0), draw(200, 1), draw(5000, 2)


def loss(weights, features, classes):
    """Return the mean of the negative log-likelihood."""
    scores = features @ weights
    return np.mean(np.logaddexp(0.0, scores) - classes * scores)


def fit(log_penalties):
    """Return the weights that minimise the penalised loss on the training data."""
    penalties = np.exp(log_penalties)

    def penalised(weights):
        return loss(weights, *TRAINING) + np.sum(penalties * weights**2)

    found = minimize(
        tg.value_and_grad(penalised),
        np.zeros(FEATURES),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    return found.x


def objective(log_penalties):
    """Return the loss of the fitted weights on other data."""
    return loss(fit(log_penalties), *OTHER)


def choose(start, iterations=40):
    """Return SciPy's result of the search for penalties, kept between exp(-10) and exp(5)."""
    return minimize(
        tg.compile(objective).value_and_grad,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-10.0, 5.0)] * len(start),
        options={"maxiter": iterations},
    )


def save_picture(before, after, path=PICTURE):
    """Draw the weights with one penalty for all, and with the chosen ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    places = np.arange(FEATURES)
    axes.bar(places - 0.2, before, 0.4, color="tab:gray", label="one penalty for all")
    axes.bar(places + 0.2, after, 0.4, color="tab:red", label="a penalty for each")
    axes.axvline(USEFUL - 0.5, color="k", lw=0.7, ls=":")
    axes.set(xlabel="feature; those to the right tell nothing", ylabel="weight")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Choose penalties, compare and draw."""
    start = np.full(FEATURES, -4.0)
    result = choose(start)
    before, after = fit(start), fit(result.x)
    print(f"{result.nit} iterations, {result.nfev} gradients, a fit of {FEATURES} weights in each")
    for name, weights in (("one penalty for all", before), ("a penalty for each", after)):
        print(f"{name}: loss {loss(weights, *OTHER):.4f}, on new data {loss(weights, *NEW):.4f}")
    assert loss(after, *NEW) < loss(before, *NEW)
    save_picture(before, after)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
