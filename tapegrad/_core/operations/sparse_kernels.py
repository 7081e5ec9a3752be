"""Kernels of `sparse_products`: columns and starts are arrays of floats, as all operands are.

They read operands in C order, of which others are copied, so that the loops over stored numbers
have no strides. A place outside of the matrix ends them, where it is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..codegen import lapack
from ..codegen.intrinsics import f64s, free, helper, load_i64, malloc, memset, unaliased
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .filter_kernels import copy_axes, is_whole_image


class Places(NamedTuple):
    """Where the stored numbers of a matrix are, how many, and its rows and columns."""

    columns: Any
    starts: Any
    count: int
    rows: int
    size: int


# --- operands -------------------------------------------------------------------------------------


@helper
def room_for(array, own):
    """The bytes that a copy of the last axes of an array takes; 0 if it needs none."""
    if is_whole_image(array, own):
        return 0
    count = 8
    for back in range(1, own + 1):
        count *= lapack.size_along(array, back)
    return count


@helper
def in_order(array, own, out, out_own, k, room):
    """The address of element k of the output's batch in an array, or of its copy in C order."""
    at = lapack.batch_item(array, own, out, out_own, k)
    if is_whole_image(array, own):
        return at
    copy_axes(room, array, at, own)
    return room


@helper
def read_places(refs, first, room, rows, size):
    """The places whose columns and starts are references from number `first` on."""
    columns = load_i64(refs, first * REFERENCE_BYTES)
    starts = load_i64(refs, (first + 1) * REFERENCE_BYTES)
    at = in_order(columns, 1, columns, 1, 0, room)
    ends = in_order(starts, 1, starts, 1, 0, room + room_for(columns, 1))
    return Places(f64s(at), f64s(ends), lapack.size_along(columns, 1), rows, size)


@helper
def room_for_places(refs, first):
    """The bytes that `read_places` takes."""
    columns = load_i64(refs, first * REFERENCE_BYTES)
    return room_for(columns, 1) + room_for(load_i64(refs, (first + 1) * REFERENCE_BYTES), 1)


@helper
def are_all(places):
    """Whether rows begin with the first number, and end with the last."""
    return places.starts[0] == 0.0 and places.starts[places.rows] == places.count


# --- rows -----------------------------------------------------------------------------------------


@helper
def add_scaled(to, x, factor, n):
    """Add a multiple of n numbers to others."""
    unaliased()
    for j in range(n):
        to[j] += factor * x[j]


@helper
def inner(x, y, n):
    """The sum of products of n numbers."""
    total = 0.0
    for j in range(n):
        total += x[j] * y[j]
    return total


@helper
def line(address, row, width):
    """Row `row` of a matrix in C order."""
    return f64s(address + row * width * 8)


@helper
def times_vector(p, numbers, x, to):
    """Write A x; whether all places are within the matrix."""
    for row in range(p.rows):
        first, last = int(p.starts[row]), int(p.starts[row + 1])
        if not 0 <= first <= last <= p.count:
            return False
        total = 0.0
        for k in range(first, last):
            column = int(p.columns[k])
            if not 0 <= column < p.size:
                return False
            total += numbers[k] * x[column]
        to[row] = total
    return True


@helper
def turned_times_vector(p, numbers, x, to):
    """Add Aᵀ x."""
    for row in range(p.rows):
        first, last, factor = int(p.starts[row]), int(p.starts[row + 1]), x[row]
        if not 0 <= first <= last <= p.count:
            return False
        for k in range(first, last):
            column = int(p.columns[k])
            if not 0 <= column < p.size:
                return False
            to[column] += numbers[k] * factor
    return True


@helper
def times_matrix(p, numbers, x, to, width, is_turned):
    """Add A x, or Aᵀ x, for several vectors side by side."""
    for row in range(p.rows):
        first, last = int(p.starts[row]), int(p.starts[row + 1])
        if not 0 <= first <= last <= p.count:
            return False
        for k in range(first, last):
            column = int(p.columns[k])
            if not 0 <= column < p.size:
                return False
            target, source = (column, row) if is_turned else (row, column)
            add_scaled(line(to, target, width), line(x, source, width), numbers[k], width)
    return True


@helper
def adjoints_of_vector(p, numbers, g, x, to, added):
    """Write g xᵀ at the places to `to`, and add Aᵀ g to `added`, in one pass."""
    for row in range(p.rows):
        first, last, factor = int(p.starts[row]), int(p.starts[row + 1]), g[row]
        if not 0 <= first <= last <= p.count:
            return False
        for k in range(first, last):
            column = int(p.columns[k])
            if not 0 <= column < p.size:
                return False
            to[k] = factor * x[column]
            added[column] += numbers[k] * factor
    return True


@helper
def samples_of_vectors(p, u, v, to):
    """Write u vᵀ at the places."""
    for row in range(p.rows):
        first, last, factor = int(p.starts[row]), int(p.starts[row + 1]), u[row]
        if not 0 <= first <= last <= p.count:
            return False
        for k in range(first, last):
            column = int(p.columns[k])
            if not 0 <= column < p.size:
                return False
            to[k] = factor * v[column]
    return True


@helper
def samples_of_matrices(p, u, v, to, width):
    """Write u vᵀ at the places, u and v of several columns."""
    for row in range(p.rows):
        first, last = int(p.starts[row]), int(p.starts[row + 1])
        if not 0 <= first <= last <= p.count:
            return False
        for k in range(first, last):
            column = int(p.columns[k])
            if not 0 <= column < p.size:
                return False
            to[k] = inner(line(u, row, width), line(v, column, width), width)
    return True


# --- kernels --------------------------------------------------------------------------------------


@helper
def multiply_each(frame, refs, out, is_turned):
    """The products of a batch; references: parameters, the numbers, columns, starts, operands."""
    numbers, x = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    n, width, size = lapack.size_along(out, 2), lapack.size_along(out, 1), lapack.size_along(x, 2)
    of_places, of_numbers = room_for_places(refs, 2), room_for(numbers, 1)
    room = malloc(of_places + of_numbers + room_for(x, 2))
    p = read_places(refs, 2, room, size if is_turned else n, n if is_turned else size)
    is_right = are_all(p)
    for k in range(lapack.batch_size(out, 2) if is_right and n * width > 0 else 0):
        at = f64s(in_order(numbers, 1, out, 2, k, room + of_places))
        given = in_order(x, 2, out, 2, k, room + of_places + of_numbers)
        to = load_i64(out, ARRAY_DATA) + k * n * width * 8
        if width == 1 and not is_turned:
            is_right &= times_vector(p, at, f64s(given), f64s(to))
            continue
        memset(to, 0, n * width * 8)
        if width == 1:
            is_right &= turned_times_vector(p, at, f64s(given), f64s(to))
        else:
            is_right &= times_matrix(p, at, given, to, width, is_turned)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


def sparse_product_forward(frame, id, refs, task):
    """References: no parameters, the numbers, columns, starts, the operand, the output."""
    multiply_each(frame, refs, load_i64(refs, 5 * REFERENCE_BYTES), False)


def sparse_transposed_product_forward(frame, id, refs, task):
    """References: the number of columns, the numbers, columns, starts, the operand, the output."""
    multiply_each(frame, refs, load_i64(refs, 5 * REFERENCE_BYTES), True)


@helper
def take_each(frame, refs, numbers, first, out):
    """Elements of u vᵀ of a batch, and behind each the adjoint of v if there are numbers, or 0.

    The references from number `first` on are columns, starts, u, v.
    """
    u = load_i64(refs, (first + 2) * REFERENCE_BYTES)
    v = load_i64(refs, (first + 3) * REFERENCE_BYTES)
    rows, size, width = lapack.size_along(u, 2), lapack.size_along(v, 2), lapack.size_along(u, 1)
    of_places, of_u, of_v = room_for_places(refs, first), room_for(u, 2), room_for(v, 2)
    room = malloc(of_places + of_u + of_v + (room_for(numbers, 1) if numbers != 0 else 0))
    p = read_places(refs, first, room, rows, size)
    is_right, behind = are_all(p), size * width if numbers != 0 else 0
    for k in range(lapack.batch_size(out, 1) if is_right else 0):
        of_rows = in_order(u, 2, out, 1, k, room + of_places)
        of_columns = in_order(v, 2, out, 1, k, room + of_places + of_u)
        to = load_i64(out, ARRAY_DATA) + k * (p.count + behind) * 8
        added = to + p.count * 8
        if numbers != 0:
            at = f64s(in_order(numbers, 1, out, 1, k, room + of_places + of_u + of_v))
            memset(added, 0, behind * 8)
            if width == 1:
                x = f64s(of_columns)
                is_right &= adjoints_of_vector(p, at, f64s(of_rows), x, f64s(to), f64s(added))
                continue
            is_right &= times_matrix(p, at, of_rows, added, width, True)
        if width == 1:
            is_right &= samples_of_vectors(p, f64s(of_rows), f64s(of_columns), f64s(to))
        else:
            is_right &= samples_of_matrices(p, of_rows, of_columns, f64s(to), width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


def sparse_adjoints_forward(frame, id, refs, task):
    """References: no parameters, numbers, columns, starts, adjoints, the operand, the output."""
    numbers, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 6 * REFERENCE_BYTES)
    take_each(frame, refs, numbers, 2, out)


def sparse_samples_forward(frame, id, refs, task):
    """References: no parameters, columns, starts, the operands by row and by column, the output."""
    take_each(frame, refs, 0, 1, load_i64(refs, 5 * REFERENCE_BYTES))


_COMMON = (
    *(copy_axes, is_whole_image, Places, room_for, in_order, read_places, room_for_places),
    *(are_all, add_scaled, line, times_matrix),
)
PRODUCT_HELPERS = (*_COMMON, times_vector, turned_times_vector, multiply_each)
SAMPLE_HELPERS = (
    *(*_COMMON, inner, adjoints_of_vector, samples_of_vectors, samples_of_matrices, take_each),
)
