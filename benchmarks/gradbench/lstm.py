"""The loss of a recurrent network whose matrices are diagonal, over a sequence of bit patterns."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed


def sigmoid(x):
    """Return the logistic function."""
    return 1.0 / (1.0 + np.exp(-x))


def loss(main, extra, state, sequence):
    """Return the negative mean log-likelihood of every pattern after those before it.

    Two rows of `main` are the weights and biases of a layer, for four gates; two rows of `state`
    are its hidden values and its cells.
    """
    layers, bits = len(state) // 2, sequence.shape[1]
    weights, biases = main[::2].reshape(layers, 4, bits), main[1::2].reshape(layers, 4, bits)
    hidden, cells = list(state[::2]), list(state[1::2])
    total = 0.0
    for t in range(len(sequence) - 1):
        x = sequence[t] * extra[0]
        for i in range(layers):
            w, b, h = weights[i], biases[i], hidden[i]
            forget = sigmoid(x * w[0] + b[0])
            entry = sigmoid(h * w[1] + b[1])
            leave = sigmoid(x * w[2] + b[2])
            cells[i] = cells[i] * forget + entry * np.tanh(h * w[3] + b[3])
            hidden[i] = x = leave * np.tanh(cells[i])
        y = x * extra[1] + extra[2]
        total = total + np.sum(sequence[t + 1] * (y - np.log(2.0 + np.sum(np.exp(y)))))
    return -total / (bits * (len(sequence) - 1))


def read(given):
    """Return the arguments."""
    names = ("main_params", "extra_params", "state", "sequence")
    return tuple(np.array(given[name], float) for name in names)


def write(gradients):
    """Return the gradients as one list."""
    return np.concatenate([g.ravel() for g in gradients]).tolist()


compiled = tg.compile(loss, argnums=(0, 1))
FUNCTIONS = {
    "objective": Timed(read, compiled, float),
    "jacobian": Timed(read, compiled.grad, write),
}
