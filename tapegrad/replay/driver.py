"""Programs called: their parts one after the other, inputs in, value and gradient out.

One entry into compiled code is one evaluation. It needs neither Python nor the interpreter lock.
A plan is a list of calls of parts.
"""

from __future__ import annotations

from ..codegen.factory import functions, once

#: Words of a program, byte offsets.
(
    VALUE_PLAN,  # address of rows of two words: a function of a part, its data
    VALUE_COUNT,
    REVERSE_PLAN,  # adjoints after values
    REVERSE_COUNT,
    GRADIENT_PLAN,  # values and adjoints
    GRADIENT_COUNT,
    CLEARS,  # address of rows of two words: where adjoints are set to 0 first, and how many bytes
    CLEARS_COUNT,
    INPUTS,  # address of rows of words, see below
    INPUTS_COUNT,
    RESULT,  # slot of the first result
) = range(0, 88, 8)
WORDS = 11
#: Words of an input: slot, how many, whether it is an array, its base, whether the memory of its
#: adjoint is set to 0 first.
SLOT, SIZE, IS_ARRAY, BASE, ZEROED = range(0, 40, 8)
INPUT_WORDS = 5

SOURCE = '''
from numba import types
from tapegrad.codegen.layout import ARRAY_DATA, FLOAT_VALUE
from tapegrad.codegen.memory import (
    call_address, helper, load_f64, load_i64, memcpy, memset, store_f64, store_i64,
)
from tapegrad.replay.driver import (
    BASE, GRADIENT_COUNT, GRADIENT_PLAN, INPUT_WORDS, INPUTS, INPUTS_COUNT, IS_ARRAY, RESULT,
    CLEARS, CLEARS_COUNT, REVERSE_COUNT, REVERSE_PLAN, SIZE, SLOT, VALUE_COUNT, VALUE_PLAN, ZEROED,
)
from tapegrad.replay.layout import (
    FINISHED, RUN_ADJOINT_BASES, RUN_ADJOINTS, RUN_VALUE_BASES, RUN_VALUES,
)

part = call_address(types.int64(types.int64, types.int64))


@helper
def follow(run, at, count):
    """Call parts; returns why it stopped."""
    for k in range(count):
        status = part(load_i64(at, k * 16), run, load_i64(at, k * 16 + 8))
        if status != FINISHED:
            return status
    return FINISHED


@helper
def input_row(program, k):
    return load_i64(program, INPUTS) + k * INPUT_WORDS * 8


@helper
def do_enter(run, program, objects):
    """Take inputs: objects of Python's at addresses, floats or float64 arrays in C order."""
    V, bases = load_i64(run, RUN_VALUES), load_i64(run, RUN_VALUE_BASES)
    for k in range(load_i64(program, INPUTS_COUNT)):
        row, given = input_row(program, k), load_i64(objects, k * 8)
        if load_i64(row, BASE) != 0:
            store_i64(bases, load_i64(row, BASE) * 8, load_i64(given, ARRAY_DATA))
        elif load_i64(row, IS_ARRAY) != 0:
            to = V + load_i64(row, SLOT) * 8
            memcpy(to, load_i64(given, ARRAY_DATA), load_i64(row, SIZE) * 8)
        else:
            store_f64(V, load_i64(row, SLOT) * 8, load_f64(given, FLOAT_VALUE))
    return FINISHED


@helper
def do_clear(run, program, gradients):
    """Set adjoints to 0; those of large inputs are the memory of gradients, arrays at addresses."""
    G, clears = load_i64(run, RUN_ADJOINTS), load_i64(program, CLEARS)
    for k in range(load_i64(program, CLEARS_COUNT)):
        memset(G + load_i64(clears, k * 16), 0, load_i64(clears, k * 16 + 8))
    for k in range(load_i64(program, INPUTS_COUNT)):
        row, to = input_row(program, k), load_i64(gradients, k * 8)
        if load_i64(row, BASE) != 0 and to != 0:
            data = load_i64(to, ARRAY_DATA)
            store_i64(load_i64(run, RUN_ADJOINT_BASES), load_i64(row, BASE) * 8, data)
            if load_i64(row, ZEROED) != 0:
                memset(data, 0, load_i64(row, SIZE) * 8)
    return FINISHED


@helper
def do_give(run, program, gradients):
    """Copy adjoints of inputs to arrays at addresses."""
    G = load_i64(run, RUN_ADJOINTS)
    for k in range(load_i64(program, INPUTS_COUNT)):
        row, to = input_row(program, k), load_i64(gradients, k * 8)
        if load_i64(row, BASE) == 0 and to != 0:
            size = load_i64(row, SIZE) * 8
            memcpy(load_i64(to, ARRAY_DATA), G + load_i64(row, SLOT) * 8, size)
    return FINISHED


def values(run, program):
    return follow(run, load_i64(program, VALUE_PLAN), load_i64(program, VALUE_COUNT))


def adjoints(run, program):
    return follow(run, load_i64(program, REVERSE_PLAN), load_i64(program, REVERSE_COUNT))


@helper
def seeded(run, program):
    """Values and adjoints, from an adjoint of 1 of the first result on."""
    store_f64(load_i64(run, RUN_ADJOINTS), load_i64(program, RESULT) * 8, 1.0)
    return follow(run, load_i64(program, GRADIENT_PLAN), load_i64(program, GRADIENT_COUNT))


def value(run, program, objects):
    """One evaluation."""
    do_enter(run, program, objects)
    return follow(run, load_i64(program, VALUE_PLAN), load_i64(program, VALUE_COUNT))


def value_and_grad(run, program, objects, gradients):
    """One evaluation with its gradient."""
    do_enter(run, program, objects)
    do_clear(run, program, gradients)
    status = seeded(run, program)
    do_give(run, program, gradients)
    return status


def enter(run, program, objects):
    return do_enter(run, program, objects)


def clear(run, program, gradients):
    return do_clear(run, program, gradients)


def give(run, program, gradients):
    return do_give(run, program, gradients)
'''
EXPORTS = {
    "enter": 3,
    "clear": 3,
    "give": 3,
    "values": 2,
    "adjoints": 2,
    "value": 3,
    "value_and_grad": 4,
}


@once
def compiled() -> dict:
    """The functions as Python calls them, without the interpreter lock."""
    return functions(SOURCE, EXPORTS, keep_lock=False)
