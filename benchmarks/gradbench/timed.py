"""A function of an evaluation: its input is read, it is called and timed, its result is written."""

import dataclasses
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Timed:
    """A function that GradBench calls by name."""

    #: Of the input, the decoded JSON, to the arguments of `call`.
    read: Callable
    #: What is timed.
    call: Callable
    #: Of the result to what JSON can hold.
    write: Callable

    def evaluate(self, given):
        """Return the response to an input: the output, and the time of every run."""
        arguments = self.read(given)
        runs, seconds = given.get("min_runs", 1), given.get("min_seconds", 0.0)
        timings, spent = [], 0
        while len(timings) < max(runs, 1) or spent < 1e9 * seconds:
            started = time.perf_counter_ns()
            result = self.call(*arguments)
            taken = time.perf_counter_ns() - started
            timings.append({"name": "evaluate", "nanoseconds": taken})
            spent += taken
        return {"success": True, "output": self.write(result), "timings": timings}


def numbers(array):
    """Return an array as nested lists."""
    return array.tolist()
