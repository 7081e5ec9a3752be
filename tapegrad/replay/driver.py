"""Programs called: the parts one after the other, inputs in, value and gradient out.

One entry into compiled code is one evaluation. It needs neither Python nor the interpreter lock.
"""

from __future__ import annotations

from ..codegen.factory import functions, once

#: Words of a program, byte offsets.
(
    PARTS,  # address of rows of four words: forward, reverse, both, data
    PARTS_COUNT,
    SLOTS,
    INPUTS,  # address of rows of three words: slot, count, whether it is an array object
    INPUTS_COUNT,
    RESULT,  # slot of the first result
) = range(0, 48, 8)
WORDS = 6
#: Words of a row of parts.
FORWARD, REVERSE, BOTH, DATA = range(0, 32, 8)

SOURCE = '''
from numba import types
from tapegrad.codegen.layout import ARRAY_DATA, FLOAT_VALUE
from tapegrad.codegen.memory import (
    call_address, f64s, helper, load_f64, load_i64, memcpy, memset, store_f64,
)
from tapegrad.replay.driver import (
    BOTH, DATA, FORWARD, INPUTS, INPUTS_COUNT, PARTS, PARTS_COUNT, RESULT, REVERSE, SLOTS,
)
from tapegrad.replay.layout import FINISHED, RUN_ADJOINTS, RUN_VALUES

part = call_address(types.int64(types.int64, types.int64))


@helper
def forward(run, program):
    """Compute values; returns why it stopped."""
    at = load_i64(program, PARTS)
    for k in range(load_i64(program, PARTS_COUNT)):
        row = at + k * 32
        status = part(load_i64(row, FORWARD), run, load_i64(row, DATA))
        if status != FINISHED:
            return status
    return FINISHED


@helper
def clear(run, program):
    """Set all adjoints to 0."""
    memset(load_i64(run, RUN_ADJOINTS), 0, load_i64(program, SLOTS) * 8)
    return FINISHED


@helper
def reverse(run, program):
    """Add adjoints, from those of the results on."""
    at = load_i64(program, PARTS)
    k = load_i64(program, PARTS_COUNT) - 1
    while k >= 0:
        row = at + k * 32
        k -= 1
        if load_i64(row, REVERSE) != 0:  # else nothing that it reads has an adjoint
            status = part(load_i64(row, REVERSE), run, load_i64(row, DATA))
            if status != FINISHED:
                return status
    return FINISHED


@helper
def enter(run, program, objects):
    """Copy inputs in: objects of Python's at addresses, floats or float64 arrays in C order."""
    V = load_i64(run, RUN_VALUES)
    for k in range(load_i64(program, INPUTS_COUNT)):
        row = load_i64(program, INPUTS) + k * 24
        given, to = load_i64(objects, k * 8), V + load_i64(row, 0) * 8
        if load_i64(row, 16) == 0:
            store_f64(to, 0, load_f64(given, FLOAT_VALUE))
        else:
            memcpy(to, load_i64(given, ARRAY_DATA), load_i64(row, 8) * 8)
    return FINISHED


def value_and_grad(run, program, objects, gradients):
    """Value, and gradients into arrays at addresses of objects (or numbers, where 0 is given)."""
    enter(run, program, objects)
    status = forward(run, program)
    if status != FINISHED:
        return status
    clear(run, program)
    G = load_i64(run, RUN_ADJOINTS)
    store_f64(G, load_i64(program, RESULT) * 8, 1.0)
    status = reverse(run, program)
    for k in range(load_i64(program, INPUTS_COUNT)):
        row = load_i64(program, INPUTS) + k * 24
        to = load_i64(gradients, k * 8)
        if to != 0:
            size = load_i64(row, 8) * 8
            memcpy(load_i64(to, ARRAY_DATA), G + load_i64(row, 0) * 8, size)
    return status


def run_forward(run, program):
    return forward(run, program)


def run_reverse(run, program):
    return reverse(run, program)


def run_enter(run, program, objects):
    return enter(run, program, objects)
'''
EXPORTS = {"run_forward": 2, "run_reverse": 2, "run_enter": 3, "value_and_grad": 4}


@once
def compiled() -> dict:
    """The functions as Python calls them, without the interpreter lock."""
    return functions(SOURCE, EXPORTS, keep_lock=False)
