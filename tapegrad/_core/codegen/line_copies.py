"""Lines of doubles, many at a time: strided memory whose lines are short.

Numbers move four at a time. A line whose length is no multiple of four ends with four of which some
have been moved before, which is right for copies only: sums end one by one.
"""

from . import machine_types as types
from .intrinsics import apart, f64s, helper, intrinsic, load_f64, memcpy, store_f64
from .simd import LANES, load, spread, store

#: The least length of a line for a call of its own.
LONG = 64


_TWO_ADDRESSES = types.none(types.int64, types.int64)


@intrinsic(_TWO_ADDRESSES)
def copy4(builder, target, source):
    """Copy four doubles."""
    store(builder, load(builder, source), target)


@intrinsic(types.none(types.int64, types.float64))
def fill4(builder, target, number):
    """Write a double four times."""
    store(builder, spread(builder, number), target)


@intrinsic(_TWO_ADDRESSES)
def add4(builder, target, source):
    """Add four doubles to four others."""
    store(builder, builder.fadd(load(builder, target), load(builder, source)), target)


@intrinsic(types.none(types.int64, types.int64, types.int64))
def add_both4(builder, target, source, distance):
    """`add4` twice, the second time at a distance in bytes: what both add is added once."""
    places = [builder.add(at, distance) for at in (target, source)]
    pairs = (target, source), places
    sums = [builder.fadd(*[load(builder, at) for at in pair]) for pair in pairs]
    for at, made in zip((target, places[0]), sums, strict=True):
        store(builder, made, at)


@intrinsic(_TWO_ADDRESSES)
def swap4(builder, one, other):
    """Exchange four doubles with four others, or as many bytes."""
    first, second = load(builder, one), load(builder, other)
    store(builder, second, one)
    store(builder, first, other)


@helper
def copy_lines(target, source, across, step, length, lines):
    """Lines that begin `across` bytes apart, written contiguously.

    The numbers of a line are `step` bytes apart.
    """
    end = 8 * length - 8 * LANES
    if length == 2 or length == 3:
        copy_tiny_lines(target, source, across, step, length, lines)
        return
    for _ in range(lines):
        if step == 8 and length >= LONG:
            memcpy(target, source, 8 * length)
        elif step == 8 and length >= LANES:
            for at in range(0, end, 8 * LANES):
                copy4(target + at, source + at)
            copy4(target + end, source + end)
        elif step == 0 and length >= LANES:
            number = load_f64(source, 0)
            for at in range(0, end, 8 * LANES):
                fill4(target + at, number)
            fill4(target + end, number)
        else:
            t = f64s(target)
            for i in range(length):
                t[i] = load_f64(source, i * step)
        target += 8 * length
        source += across


@helper
def copy_tiny_lines(target, source, across, step, length, lines):
    """`copy_lines` of two numbers each, or three, without a loop for each."""
    if length == 3 and step == 0 and lines > 0:
        for k in range(lines - 1):  # the fourth is written again
            fill4(target + 24 * k, load_f64(source, k * across))
        t, last = f64s(target + 24 * (lines - 1)), load_f64(source, (lines - 1) * across)
        t[0], t[1], t[2] = last, last, last
    elif length == 2:
        for k in range(lines):
            t, at = f64s(target + 16 * k), source + k * across
            t[0], t[1] = load_f64(at, 0), load_f64(at, step)
    else:
        for k in range(lines):
            t, at = f64s(target + 24 * k), source + k * across
            t[0], t[1], t[2] = load_f64(at, 0), load_f64(at, step), load_f64(at, 2 * step)


@helper
def sum_tiny_lines(target, across, source, length, lines):
    """Add the sum of each line of two to four numbers, as `sum_of_line` computes it."""
    if length == 2:
        for k in range(lines):
            s = f64s(source + 16 * k)
            f64s(target + k * across)[0] += s[0] + s[1]
    elif length == 3:
        for k in range(lines):
            s = f64s(source + 24 * k)
            f64s(target + k * across)[0] += (s[0] + s[2]) + s[1]
    else:
        for k in range(lines):
            s = f64s(source + 32 * k)
            f64s(target + k * across)[0] += (s[0] + s[2]) + (s[1] + s[3])


@helper
def sum_of_line(source, length):
    """The sum of a short line, of its even and odd places by turns."""
    s, even, odd, i = f64s(source), 0.0, 0.0, 0
    while i + 1 < length:
        even += s[i]
        odd += s[i + 1]
        i += 2
    if i < length:
        even += s[i]
    return even + odd


@helper
def add_short_lines(target, across, step, source, length, lines):
    """Add contiguous lines to lines that begin `across` bytes apart, numbers `step` apart."""
    apart()
    whole = length // LANES * LANES
    if step == 0 and 2 <= length <= 4:
        sum_tiny_lines(target, across, source, length, lines)
        return
    for _ in range(lines):
        if step == 0:
            store_f64(target, 0, load_f64(target, 0) + sum_of_line(source, length))
        elif step == 8:
            for at in range(0, 8 * whole, 8 * LANES):
                add4(target + at, source + at)
            for at in range(8 * whole, 8 * length, 8):
                store_f64(target, at, load_f64(target, at) + load_f64(source, at))
        else:
            for i in range(length):
                sum_ = load_f64(target, i * step) + load_f64(source, 8 * i)
                store_f64(target, i * step, sum_)
        source += 8 * length
        target += across
