"""Kernels of `sparse_products`: columns and starts are arrays of floats, as all operands are."""

from __future__ import annotations

from ..codegen import lapack
from ..codegen.intrinsics import helper, load_f64, load_i64, memset, store_f64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES


@helper
def row_range(frame, starts, count, row):
    """Where a row begins and ends; where it is not among `count` numbers the kernel refuses.

    `starts` is the address of these numbers, and their stride.
    """
    data, step = starts
    first, last = int(load_f64(data, row * step)), int(load_f64(data, (row + 1) * step))
    if not 0 <= first <= last <= count:
        lapack.refuse(frame, 1)
        return 0, 0
    return first, last


@helper
def line_of(array):
    """The address of an array with one axis, and its stride."""
    return load_i64(array, ARRAY_DATA), lapack.stride_along(array, 1)


@helper
def column_at(frame, data, offset, size):
    """The column of a stored number; 0, and the kernel refuses, where there is none."""
    column = int(load_f64(data, offset))
    if not 0 <= column < size:
        lapack.refuse(frame, 1)
        return 0
    return column


@helper
def add_scaled(to, source, step, factor, n):
    """Add a multiple of n numbers to others, which are side by side."""
    for j in range(n):
        store_f64(to, j * 8, load_f64(to, j * 8) + factor * load_f64(source, j * step))


@helper
def row_sum(frame, places, at, step, x):
    """The sum over stored numbers of a row, with the numbers of a vector."""
    columns, apart, first, last, size = places
    data, down = x
    total = 0.0
    for k in range(first, last):
        column = column_at(frame, columns, k * apart, size)
        total += load_f64(at, k * step) * load_f64(data, column * down)
    return total


@helper
def add_row(frame, places, at, step, factor, to):
    """Add a multiple of a row to a vector."""
    columns, apart, first, last, size = places
    for k in range(first, last):
        column = column_at(frame, columns, k * apart, size)
        store_f64(to, column * 8, load_f64(to, column * 8) + load_f64(at, k * step) * factor)


@helper
def take_row(frame, places, x, factor, to):
    """Write a multiple of the numbers of a vector at the places of a row."""
    columns, apart, first, last, size = places
    data, down = x
    for k in range(first, last):
        column = column_at(frame, columns, k * apart, size)
        store_f64(to, k * 8, factor * load_f64(data, column * down))


@helper
def add_rows(frame, places, at, matrix, x, to, width):
    """Add the rows of a product to an output: `places` are columns, their stride, and starts."""
    columns, apart, starts, count = places
    step, rows, size = matrix
    data, down, along = x
    for row in range(rows):
        first, last = row_range(frame, starts, count, row)
        if width == 1:
            found = row_sum(frame, (columns, apart, first, last, size), at, step, (data, down))
            store_f64(to, row * 8, found)
        else:
            for k in range(first, last):
                source = data + column_at(frame, columns, k * apart, size) * down
                add_scaled(to + row * width * 8, source, along, load_f64(at, k * step), width)


@helper
def add_columns(frame, places, at, matrix, x, to, width):
    """The same for the product with the transpose."""
    columns, apart, starts, count = places
    step, rows, size = matrix
    data, down, along = x
    for row in range(rows):
        first, last = row_range(frame, starts, count, row)
        if width == 1:
            factor = load_f64(data, row * down)
            add_row(frame, (columns, apart, first, last, size), at, step, factor, to)
            continue
        for k in range(first, last):
            target = to + column_at(frame, columns, k * apart, size) * width * 8
            add_scaled(target, data + row * down, along, load_f64(at, k * step), width)


@helper
def multiply_each(frame, refs, out, is_turned):
    """The products of a batch; references: parameters, the numbers, columns, starts, operands."""
    numbers, columns = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    starts, x = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    rows, width = lapack.size_along(out, 2), lapack.size_along(out, 1)
    places = (
        load_i64(columns, ARRAY_DATA),
        lapack.stride_along(columns, 1),
        line_of(starts),
        lapack.size_along(columns, 1),
    )
    step, down = lapack.stride_along(numbers, 1), lapack.stride_along(x, 2)
    size, along = lapack.size_along(x, 2), lapack.stride_along(x, 1)
    for k in range(lapack.batch_size(out, 2) if rows * width > 0 else 0):
        at = lapack.batch_item(numbers, 1, out, 2, k)
        data = lapack.batch_item(x, 2, out, 2, k)
        to = load_i64(out, ARRAY_DATA) + k * rows * width * 8
        memset(to, 0, rows * width * 8)
        if is_turned:
            add_columns(frame, places, at, (step, size, rows), (data, down, along), to, width)
        else:
            add_rows(frame, places, at, (step, rows, size), (data, down, along), to, width)


def sparse_product_forward(frame, id, refs, task):
    """References: no parameters, the numbers, columns, starts, the operand, the output."""
    multiply_each(frame, refs, load_i64(refs, 5 * REFERENCE_BYTES), False)


def sparse_transposed_product_forward(frame, id, refs, task):
    """References: the number of columns, the numbers, columns, starts, the operand, the output."""
    multiply_each(frame, refs, load_i64(refs, 5 * REFERENCE_BYTES), True)


@helper
def take_and_add(frame, places, numbers, row, to, width):
    """Both adjoints of a row of a product, in one pass over its stored numbers."""
    columns, apart, first, last, size = places
    at, step = numbers
    u, along, v, down, beside = row
    added = to[1]
    for k in range(first, last):
        column = column_at(frame, columns, k * apart, size)
        number, total = load_f64(at, k * step), 0.0
        for j in range(width):
            factor, target = load_f64(u, j * along), (column * width + j) * 8
            total += factor * load_f64(v, column * down + j * beside)
            store_f64(added, target, load_f64(added, target) + number * factor)
        store_f64(to[0], k * 8, total)


def sparse_adjoints_forward(frame, id, refs, task):
    """References: no parameters, numbers, columns, starts, adjoints, the operand, the output."""
    numbers, columns = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    starts, g = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    x, out = load_i64(refs, 5 * REFERENCE_BYTES), load_i64(refs, 6 * REFERENCE_BYTES)
    count, rows = lapack.size_along(columns, 1), lapack.size_along(g, 2)
    size, width = lapack.size_along(x, 2), lapack.size_along(x, 1)
    (data, apart), ends, down = line_of(columns), line_of(starts), lapack.stride_along(g, 2)
    steps = lapack.stride_along(g, 1), lapack.stride_along(x, 2), lapack.stride_along(x, 1)
    first, last = load_f64(ends[0], 0), load_f64(ends[0], rows * ends[1])
    if first != 0.0 or last != count or (count > 0 and size == 0):
        lapack.refuse(frame, 1)
        return
    for b in range(lapack.batch_size(out, 1)):
        u, v = lapack.batch_item(g, 2, out, 1, b), lapack.batch_item(x, 2, out, 1, b)
        given = lapack.batch_item(numbers, 1, out, 1, b), lapack.stride_along(numbers, 1)
        to = load_i64(out, ARRAY_DATA) + b * (count + size * width) * 8
        memset(to + count * 8, 0, size * width * 8)
        for row in range(rows):
            first, last = row_range(frame, ends, count, row)
            places = data, apart, first, last, size
            line = u + row * down, steps[0], v, steps[1], steps[2]
            if width == 1:
                take_and_add(frame, places, given, line, (to, to + count * 8), 1)
            else:
                take_and_add(frame, places, given, line, (to, to + count * 8), width)


def sparse_samples_forward(frame, id, refs, task):
    """References: no parameters, columns, starts, the operands by row and by column, the output."""
    columns, starts = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    u, v = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    out = load_i64(refs, 5 * REFERENCE_BYTES)
    count, rows, ends = lapack.size_along(columns, 1), lapack.size_along(u, 2), line_of(starts)
    size, width = lapack.size_along(v, 2), lapack.size_along(u, 1)
    places, apart = line_of(columns)
    down, along = lapack.stride_along(u, 2), lapack.stride_along(u, 1)
    step, beside = lapack.stride_along(v, 2), lapack.stride_along(v, 1)
    for b in range(lapack.batch_size(out, 1)):
        of_rows, of_columns = (
            lapack.batch_item(u, 2, out, 1, b),
            lapack.batch_item(v, 2, out, 1, b),
        )
        to = load_i64(out, ARRAY_DATA) + b * count * 8
        memset(to, 0, count * 8)
        for row in range(rows if size > 0 else 0):
            first, last = row_range(frame, ends, count, row)
            if width == 1:
                factor, x = load_f64(of_rows, row * down), (of_columns, step)
                take_row(frame, (places, apart, first, last, size), x, factor, to)
                continue
            for k in range(first, last):
                at, total = of_columns + column_at(frame, places, k * apart, size) * step, 0.0
                for j in range(width):
                    total += load_f64(of_rows, row * down + j * along) * load_f64(at, j * beside)
                store_f64(to, k * 8, total)


HELPERS = (
    *(row_range, line_of, column_at, add_scaled, row_sum, add_row, take_row, add_rows, add_columns),
    multiply_each,
)
