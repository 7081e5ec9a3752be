"""In-place index writes are differentiated: recurrences written as one writes them in NumPy.

Run it with `python examples/index_writes.py`.
"""

import numpy as np

import tapegrad as tg


def smoothed(x, decay):
    """Return exponentially smoothed `x`, an array filled cell by cell."""
    level = np.zeros_like(x)
    level[0] = x[0]
    for i in range(1, len(x)):
        level[i] = decay * level[i - 1] + (1 - decay) * x[i]
    return level


def squared_error(x, decay):
    """Return the sum of squares of what the smoothed past does not predict."""
    return np.sum((x[1:] - smoothed(x, decay)[:-1]) ** 2)


def diffused(u, steps):
    """Return `u` after explicit steps of the heat equation; every step overwrites its input."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def main():
    """Compare both gradients with what is known of them."""
    x = np.sin(np.arange(50.0)) + np.arange(50.0) / 50
    by_x = tg.grad(squared_error)(x, 0.7)
    h = 1e-6
    for k in (0, 10, 49):
        shift = h * (np.arange(50) == k)
        central = (squared_error(x + shift, 0.7) - squared_error(x - shift, 0.7)) / (2 * h)
        print(f"d error / d x[{k}]   tapegrad {by_x[k]: .10f}   central difference {central: .10f}")
        assert abs(by_x[k] - central) < 1e-7

    # Every step is linear, so one evaluation at each unit vector gives the derivative exactly.
    u = np.linspace(0, 1, 12) ** 2
    weights = np.cos(np.arange(12.0))
    by_u = tg.grad(lambda u: np.sum(weights * diffused(u, 30)))(u)
    columns = [weights @ diffused(unit, 30) for unit in np.eye(12)]
    print(f"heat equation: largest difference {np.max(np.abs(by_u - columns)):.1e}")
    assert np.allclose(by_u, columns, rtol=1e-12, atol=1e-15)


if __name__ == "__main__":
    main()
