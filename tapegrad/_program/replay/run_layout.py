"""The layout of the memory of a program's run, for compiled code; words, byte offsets.

Every step of a program becomes one or more parts. A part is two C functions, `forward(run, data)`
and `reverse(run, data)`, int64(int64, int64), and the address of data that never changes. `run` is
the address of these words; each thread that runs a program has its own. A function returns 0, or
why the program must stop.
"""

(
    RUN_VALUES,  # the arena of values: address of slot 0
    RUN_ADJOINTS,  # the arena of adjoints
    RUN_VALUE_BASES,  # table of addresses of values, by base
    RUN_ADJOINT_BASES,  # table of addresses of adjoints, by base; 0: no adjoint is wanted
    RUN_SCRATCH,  # SCRATCH_BYTES of this run's own, aligned to a cache line
    RUN_FRAME,  # a sweep's frame, for kernels of structural operations
    RUN_FAILED,  # the guard that failed: the slot that its operation would have written
    RUN_SEEN,  # the number that it saw, where it tests a number
    RUN_POINTERS,  # two tables, of the addresses of inputs and of gradients
    RUN_REFUSED,  # the code of the operation whose kernel has refused its operands
    RUN_ANSWER,  # why, as the operation's `refusal` reads it
) = range(0, 8 * 11, 8)
RUN_BYTES = 8 * 16
SCRATCH_BYTES = 1 << 20

# the results of a part
FINISHED, GUARD_FAILED, WANTED_PYTHON, RAISED, REFUSED = range(5)
