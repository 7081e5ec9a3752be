"""Runs that compiled code takes from a program, uses, and returns."""

from ..._core.codegen import machine_types as types
from ..._core.codegen.intrinsics import call_address, exchange, helper, load_i64, store_i64
from .driver import NEW_RUN, POOL, POOL_COUNT, POOL_LOCK, POOL_SIZE
from .run_layout import FINISHED

part = call_address(types.int64(types.int64, types.int64))
make_run = call_address(types.int64())


@helper
def follow(run, at, count):
    """Call parts; returns why it stopped."""
    for k in range(count):
        status = part(load_i64(at, k * 16), run, load_i64(at, k * 16 + 8))
        if status != FINISHED:
            return status
    return FINISHED


@helper
def take_run(program):
    """An unused run."""
    while exchange(program + POOL_LOCK, 1) != 0:
        pass
    count = load_i64(program, POOL_COUNT)
    found = 0
    if count > 0:
        store_i64(program, POOL_COUNT, count - 1)
        found = load_i64(load_i64(program, POOL), (count - 1) * 8)
    exchange(program + POOL_LOCK, 0)
    return found if found != 0 else make_run(load_i64(program, NEW_RUN))


@helper
def return_run(program, run):
    while exchange(program + POOL_LOCK, 1) != 0:
        pass
    count = load_i64(program, POOL_COUNT)
    if count < POOL_SIZE:
        store_i64(load_i64(program, POOL), count * 8, run)
        store_i64(program, POOL_COUNT, count + 1)
    exchange(program + POOL_LOCK, 0)
