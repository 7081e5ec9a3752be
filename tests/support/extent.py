"""How much of what is combined or drawn a run tests: all of it with TAPEGRAD_ALL_TESTS=1."""

import os
import zlib

ALL_TESTS = os.environ.get("TAPEGRAD_ALL_TESTS") == "1"


def some(ways, key, count=2):
    """A few of several ways, which take turns over the keys; all of them with all tests.

    A key is the number of an example, so that neighbours share out the ways, or a text.
    """
    ways = [*ways]
    if ALL_TESTS or len(ways) <= count:
        return ways
    first = count * (zlib.crc32(key.encode()) if isinstance(key, str) else key)
    return [ways[(first + k) % len(ways)] for k in range(count)]


def rounds(most, fewest):
    """How many random rounds an ordinary run makes of those of all tests."""
    return most if ALL_TESTS else fewest
