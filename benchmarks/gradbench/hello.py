"""A square and its derivative."""

import tapegrad as tg
from benchmarks.gradbench.timed import Timed


def square(x):
    """Return the square."""
    return x * x


compiled = tg.compile(square)


def number(given):
    """Return the argument; `given` is a number here, without a count of runs."""
    return (float(given),)


class Once(Timed):
    """A function whose input is the argument itself."""

    def evaluate(self, given):
        """Return the response to an input."""
        return {"success": True, "output": self.write(self.call(*self.read(given)))}


FUNCTIONS = {
    "square": Once(number, compiled, float),
    "double": Once(number, compiled.grad, float),
}
