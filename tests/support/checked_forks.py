"""Forks in the checked build, where a lock of AddressSanitizer may be held by another thread.

Its allocator's locks are not taken for a fork, before gcc 14 at least: a child that is made while
another thread is inside waits for ever. So the child says that it has come through the handlers of
the fork and got blocks of all sizes. If it does not, it is killed and the process forked again.
"""

import os
import select
import signal

SECONDS, TRIES = 10, 5


def fork_again(library, usual=os.fork):
    """`os.fork` that makes another child if the first is held up."""

    def fork():
        for _ in range(TRIES):
            hears, says = os.pipe()
            child = usual()
            if child == 0:
                os.close(hears)
                library.checked_allocate()
                os.write(says, b"1")
                os.close(says)
                return child
            os.close(says)
            is_through = select.select([hears], [], [], SECONDS)[0]
            os.close(hears)
            if is_through:
                return child
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise RuntimeError(f"checked build: {TRIES} children were held up in the fork")

    return fork
