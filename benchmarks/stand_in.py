"""Functions written with `tapegrad.numpy`, called with plain arrays and numbers, beside NumPy's."""

import importlib

import numpy

MODULES = ["numpy", "tapegrad.numpy"]


def options(np, s, t):
    """Prices of options: functions of arrays and operators."""
    d = (np.log(s) + 0.08 * t) / (0.3 * np.sqrt(t))
    tail = 0.5 * (1.0 + np.tanh(0.8 * d))
    return np.sum(s * tail - np.exp(-0.05 * t) * (1.0 - tail))


def filled(np, s, t):
    """An array made and filled by slices, joins, reductions."""
    a = np.zeros_like(s)
    a[1:] = np.sqrt(s[:-1] * t[1:])
    a = np.concatenate([a, np.linspace(0.0, 1.0, s.size)])
    return np.mean(np.where(a > 0.5, a, np.square(a))) + np.max(a)


FUNCTIONS = {"options": options, "filled": filled}
CALLS = ["np.sin(0.5)", "np.maximum(0.5, 0.2)", "np.float64(2)", "np.zeros(3)", "np.array([1.0])"]


class Arrays:
    """A function of two arrays."""

    params = [list(FUNCTIONS), [1_000, 10_000, 100_000, 1_000_000], MODULES]
    param_names = ["function", "size", "module"]

    def setup(self, name, size, module):
        """Make the arrays."""
        self.np, self.function = importlib.import_module(module), FUNCTIONS[name]
        self.data = numpy.linspace(0.5, 2.0, size), numpy.linspace(0.1, 3.0, size)
        self.time_call(name, size, module)

    def time_call(self, name, size, module):
        """Compute the value."""
        self.function(self.np, *self.data)


class Numbers:
    """A call with a number."""

    params = [CALLS, MODULES]
    param_names = ["call", "module"]

    def setup(self, call, module):
        """Compile the text of the call."""
        self.space = {"np": importlib.import_module(module)}
        self.code = compile(call, "a call", "eval")

    def time_number(self, call, module):
        """Evaluate it, text and all."""
        eval(self.code, self.space)
