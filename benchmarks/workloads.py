"""Value and gradients of every workload, recorded anew at each call."""

import functools

from benchmarks import workload_definitions

prepared = functools.cache(workload_definitions.value_and_gradients)


class Eager:
    """One call records the function and goes back through it; the first one warms up."""

    params = list(workload_definitions.WORKLOADS)
    param_names = ["workload"]
    timeout = 300

    def time_value_and_gradients(self, name):
        """Compute the value and the gradients to all arguments."""
        prepared(name)()
