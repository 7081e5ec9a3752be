"""The search for repetitions in a sequence, for `loop_finding`: compiled.

The elements of the sequence are operations, or regions that are loops already. Element e has a
token (equal tokens: equal operations) and covers operations starts[e] to starts[e + 1]. A loop at
element e of period p has as many iterations as are alike: the same tokens, and operands that move
by the same number of slots from each iteration to the next. In iteration 0 an operand that is
otherwise the result of the iteration before may be anything: the initial value. An `irregular`
search lets slots that are no results of the step move in any order.
"""

from typing import Any, NamedTuple

from ..._core.codegen.intrinsics import helper, i32s, i64s, u8s

#: Candidates for the period that are tried at an element.
_TRIES = 32
#: The longest period, in elements.
LONGEST = 8192
#: The fewest iterations of a loop; of one that reads inputs in no regular order.
_FEWEST, _FEWEST_IRREGULAR = 3, 8
#: The fewest operations in all iterations of a loop together.
LEAST = 64
#: Loops inside of loops that run through fewer operations are unrolled.
UNROLLED = 256
#: The cost of a carried value, in operations left outside the loop, where its start is chosen.
_CARRIED = 8
#: The continuation of an operand: as in a loop; not so; not so, but it might be with a longer body.
_REGULAR, _IRREGULAR, _LONGER = range(3)


class Sequence(NamedTuple):
    """A sequence of `m` elements, whose `n` operations write the slots from `first` on.

    `slots` has the addresses of the operands' columns; following[e] is the next element at which a
    loop from e might repeat; bad[p] is an element whose token differs from that p elements later.
    """

    m: Any
    starts: Any
    tokens: Any
    first: Any
    n: Any
    slots: Any
    known: Any
    irregular: Any
    following: Any
    bad: Any


@helper
def going_on(x0, x1, x2, iteration, start, q, s):
    """The continuation of an operand at `iteration` (≥ 2): after x0 and x1 it is x2."""
    first, known = s.first, s.known
    position = x2 - first
    if x2 - x1 == x1 - x0:
        two_ago = x2 - x1 == q and start <= position and position < start + (iteration - 1) * q
        return _LONGER if two_ago else _REGULAR
    if iteration == 2 and x2 - x1 == q and start <= x1 - first and x1 - first < start + q:
        return _REGULAR  # carried: x0 is the initial value
    if known[x0] and known[x1] and known[x2]:
        return _REGULAR
    end = first + s.n
    results = (first <= x0 < end) or (first <= x1 < end) or (first <= x2 < end)
    return _REGULAR if s.irregular and not results else _IRREGULAR


@helper
def operation_goes_on(k, iteration, start, q, s):
    """The same of operation k with its three operands, the worst of them."""
    worst = _REGULAR
    for operand in range(3):
        x = i32s(s.slots[operand])
        found = going_on(x[k - 2 * q], x[k - q], x[k], iteration, start, q, s)
        if found > worst:
            worst = found
    return worst


@helper
def iterations(at, p, s):
    """The number of iterations of a loop at element `at` of period p; 0 if it is none.

    Differences of tokens are noted in bad[p]: loops that would contain the place need not be tried.
    """
    starts, tokens = s.starts, s.tokens
    start, q = starts[at], starts[at + p] - starts[at]
    if at + 3 * p > s.m or starts[at + 2 * p] != start + 2 * q:
        return 0
    iteration = 2  # the continuation from the first two to the third says most
    while at + (iteration + 1) * p <= s.m:
        for e in range(at + iteration * p, at + (iteration + 1) * p):
            if tokens[e] != tokens[e - p] or tokens[e] != tokens[e - 2 * p]:
                s.bad[p] = e - p if tokens[e] != tokens[e - p] else e - 2 * p
                return iteration
            for k in range(starts[e], starts[e + 1]):
                how = operation_goes_on(k, iteration, start, q, s)
                if how == _LONGER:
                    return 0
                if how == _IRREGULAR:
                    return iteration
        iteration += 1
    return iteration


@helper
def live_values(start, q, s, reach, live):
    """live[c]: how many results are used beyond a cut before operation c of a loop's body."""
    for c in range(q + 1):
        reach[c] = 0
        live[c] = 0
    for k in range(start + 2 * q, start + 3 * q):
        for operand in range(3):
            x = i32s(s.slots[operand])
            position = x[k] - s.first
            if x[k] - x[k - q] == q and position >= start + q and position < k:
                phase = (position - start) % q
                if k - position > reach[phase]:
                    reach[phase] = k - position
    for phase in range(q):  # live at the cuts behind it: differences first, then their sums
        if reach[phase] > 0:
            last = phase + min(reach[phase], q - 1)
            live[phase + 1] += 1
            if last < q:
                live[last + 1] -= 1
            else:
                live[0] += 1
                live[last - q + 1] -= 1
    for c in range(1, q):
        live[c] += live[c - 1]


@helper
def best_cut(at, p, s, reach, live):
    """The number of elements by which a loop should start later, so that little is carried."""
    starts = s.starts
    start, q = starts[at], starts[at + p] - starts[at]
    live_values(start, q, s, reach, live)
    best, shift = live[0] * _CARRIED, 0
    for j in range(1, p):
        cut = starts[at + j] - start
        cost = live[cut] * _CARRIED + cut
        if cost < best:
            best, shift = cost, j
    return shift


@helper
def link(m, width, tokens, heads, size, following):
    """following[e]: the next element where `width` tokens hash alike, m if there is none."""
    for h in range(size):
        heads[h] = m
    for e in range(m - 1, -1, -1):
        h = 0
        for j in range(e, min(e + width, m)):
            h = (h * 1000003 + tokens[j] + 1) & 0xFFFFFFFFFFFF
        h = (h ^ (h >> 17)) & (size - 1)
        following[e] = heads[h]
        heads[h] = e


@helper
def period_at(at, longest, smallest, s):
    """The shortest period of a loop that starts at an element and its iterations; 0, 0: none."""
    fewest = _FEWEST_IRREGULAR if s.irregular else _FEWEST
    candidate, tries = s.following[at], 0
    while candidate < s.m and tries < _TRIES:
        p = candidate - at
        if p > longest:
            break
        if not (at <= s.bad[p] and s.bad[p] < at + (fewest - 1) * p):
            count = iterations(at, p, s)
            if count >= fewest and count * (s.starts[at + p] - s.starts[at]) >= smallest:
                return p, count
        candidate = s.following[candidate]
        tries += 1
    return 0, 0


@helper
def innermost(at, p, count, s):
    """A loop that was found, or one inside its first iteration that is worth being a loop."""
    e = at + 1
    while e < at + p:
        inner, times = period_at(e, p - 1, UNROLLED, s)
        if inner > 0:
            at, p, count = e, inner, times
        e += 1
    return at, p, count


@helper
def find_loops(arguments):
    """Write (element, period, iterations) of loops, left to right; returns how many.

    Arguments are words: see `loop_finding`, which makes them.
    """
    at = i64s(arguments)
    m, width, first, n, irregular, size = at[0], at[1], at[2], at[3], at[4], at[5]
    starts, tokens, known, slots = i64s(at[6]), i64s(at[7]), u8s(at[8]), i64s(at[9])
    heads, following, bad = i64s(at[10]), i64s(at[11]), i64s(at[12])
    reach, live, out = i64s(at[13]), i64s(at[14]), i64s(at[15])
    link(m, width, tokens, heads, size, following)
    s = Sequence(m, starts, tokens, first, n, slots, known, irregular, following, bad)
    found, e = 0, 0
    while e < m:
        p, count = period_at(e, LONGEST, LEAST, s)
        if p == 0:
            e += 1
            continue
        e, p, count = innermost(e, p, count, s)
        shift = best_cut(e, p, s, reach, live)
        later = iterations(e + shift, p, s)
        if later >= count - 1 and later >= _FEWEST:
            e, count = e + shift, later
        out[3 * found], out[3 * found + 1], out[3 * found + 2] = e, p, count
        found += 1
        e += p * count
    return found


SOURCE = """
from tapegrad._program.native import period_search


def find(arguments):
    return period_search.find_loops(arguments)
"""
