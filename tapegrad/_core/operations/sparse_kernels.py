"""Kernels of `sparse_products`: rows and columns are arrays of floats, as all operands are.

Loops go over the stored numbers, not over rows: where rows are short, their ends are not foreseen
by the processor, which takes longer than the sums. Operands are read in C order; others are copied.
A place outside of the matrix ends a loop where it is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..codegen import lapack
from ..codegen.intrinsics import f64s, free, helper, load_i64, malloc, memset, unaliased
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .filter_kernels import copy_axes, is_whole_image


class StoredPlaces(NamedTuple):
    """Where the stored numbers of an m by n matrix are, and how many."""

    rows: Any
    columns: Any
    stored: int
    m: int
    n: int


# --- operands -------------------------------------------------------------------------------------


@helper
def operand(refs, k):
    """The array of reference k."""
    return load_i64(refs, k * REFERENCE_BYTES)


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
def room_for_places(rows, columns):
    """The bytes that `read_places` takes."""
    return room_for(rows, 1) + room_for(columns, 1)


@helper
def read_places(rows, columns, room, m, n):
    """The places of an m by n matrix."""
    first = in_order(rows, 1, rows, 1, 0, room)
    second = in_order(columns, 1, columns, 1, 0, room + room_for(rows, 1))
    return StoredPlaces(f64s(first), f64s(second), lapack.size_along(rows, 1), m, n)


# --- loops over the stored numbers ----------------------------------------------------------------


@helper
def is_inside(p, row, column):
    return 0 <= row < p.m and 0 <= column < p.n


@helper
def line(address, row, width):
    """Row `row` of a matrix in C order."""
    return f64s(address + row * width * 8)


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
def times_vector(p, numbers, x, to):
    """Add A x; whether all places are within the matrix."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[row] += numbers[k] * x[column]
    return True


@helper
def times_matrix(p, numbers, x, to, width):
    """The same of several vectors side by side."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        add_scaled(line(to, row, width), line(x, column, width), numbers[k], width)
    return True


@helper
def samples_of_vectors(p, u, v, to):
    """Write u vᵀ at the places."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = u[row] * v[column]
    return True


@helper
def samples_of_matrices(p, u, v, to, width):
    """The same, u and v of several columns."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = inner(line(u, row, width), line(v, column, width), width)
    return True


@helper
def adjoints_of_vector(p, numbers, u, v, to, added):
    """The same of vectors, and add Aᵀ u to `added`, in one pass."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = u[row] * v[column]
        added[column] += numbers[k] * u[row]
    return True


@helper
def adjoints_of_matrix(p, numbers, u, v, to, added, width):
    """The same, u and v of several columns."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = inner(line(u, row, width), line(v, column, width), width)
        add_scaled(line(added, column, width), line(u, row, width), numbers[k], width)
    return True


# --- kernels --------------------------------------------------------------------------------------


def sparse_product_forward(frame, id, refs, task):
    """References: parameters, the numbers, rows, columns, the operand, the output."""
    numbers, rows, columns = operand(refs, 1), operand(refs, 2), operand(refs, 3)
    x, out = operand(refs, 4), operand(refs, 5)
    m, width, is_right = lapack.size_along(out, 2), lapack.size_along(out, 1), True
    of_numbers, of_x = room_for(numbers, 1), room_for(x, 2)
    room = malloc(of_numbers + of_x + room_for_places(rows, columns))
    p = read_places(rows, columns, room + of_numbers + of_x, m, lapack.size_along(x, 2))
    for k in range(lapack.batch_size(out, 2)):
        at = f64s(in_order(numbers, 1, out, 2, k, room))
        given = in_order(x, 2, out, 2, k, room + of_numbers)
        to = load_i64(out, ARRAY_DATA) + k * m * width * 8
        memset(to, 0, m * width * 8)
        if width == 1:
            is_right &= times_vector(p, at, f64s(given), f64s(to))
        else:
            is_right &= times_matrix(p, at, given, to, width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


def sparse_samples_forward(frame, id, refs, task):
    """References: no parameters, rows, columns, the operands by row and by column, the output."""
    rows, columns = operand(refs, 1), operand(refs, 2)
    u, v, out = operand(refs, 3), operand(refs, 4), operand(refs, 5)
    width, of_u, of_v, is_right = lapack.size_along(u, 1), room_for(u, 2), room_for(v, 2), True
    room = malloc(of_u + of_v + room_for_places(rows, columns))
    m, n = lapack.size_along(u, 2), lapack.size_along(v, 2)
    p = read_places(rows, columns, room + of_u + of_v, m, n)
    for k in range(lapack.batch_size(out, 1)):
        by_row = in_order(u, 2, out, 1, k, room)
        by_column = in_order(v, 2, out, 1, k, room + of_u)
        to = f64s(load_i64(out, ARRAY_DATA) + k * p.stored * 8)
        if width == 1:
            is_right &= samples_of_vectors(p, f64s(by_row), f64s(by_column), to)
        else:
            is_right &= samples_of_matrices(p, by_row, by_column, to, width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


def sparse_adjoints_forward(frame, id, refs, task):
    """References: no parameters, numbers, rows, columns, adjoints, the operand, the output."""
    numbers, rows, columns = operand(refs, 1), operand(refs, 2), operand(refs, 3)
    u, v, out = operand(refs, 4), operand(refs, 5), operand(refs, 6)
    m, n, width = lapack.size_along(u, 2), lapack.size_along(v, 2), lapack.size_along(v, 1)
    of_numbers, of_u, of_v, is_right = room_for(numbers, 1), room_for(u, 2), room_for(v, 2), True
    room = malloc(of_numbers + of_u + of_v + room_for_places(rows, columns))
    p = read_places(rows, columns, room + of_numbers + of_u + of_v, m, n)
    for k in range(lapack.batch_size(out, 1)):
        at = f64s(in_order(numbers, 1, out, 1, k, room))
        by_row = in_order(u, 2, out, 1, k, room + of_numbers)
        by_column = in_order(v, 2, out, 1, k, room + of_numbers + of_u)
        to = load_i64(out, ARRAY_DATA) + k * (p.stored + n * width) * 8
        added = to + p.stored * 8
        memset(added, 0, n * width * 8)
        if width == 1:
            x, g = f64s(by_column), f64s(by_row)
            is_right &= adjoints_of_vector(p, at, g, x, f64s(to), f64s(added))
        else:
            is_right &= adjoints_of_matrix(p, at, by_row, by_column, f64s(to), added, width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


_OPERANDS = (
    *(copy_axes, is_whole_image, StoredPlaces, operand, room_for, in_order, room_for_places),
    *(read_places, is_inside, line),
)
PRODUCT_HELPERS = (*_OPERANDS, add_scaled, times_vector, times_matrix)
SAMPLE_HELPERS = (*_OPERANDS, inner, samples_of_vectors, samples_of_matrices)
ADJOINT_HELPERS = (*_OPERANDS, add_scaled, inner, adjoints_of_vector, adjoints_of_matrix)
