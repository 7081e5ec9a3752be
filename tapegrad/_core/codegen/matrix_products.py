"""Matrix products for structural kernels: BLAS, and tiles in registers for small ones."""

from typing import NamedTuple

from . import intrinsics as doubles
from . import machine_types as types
from .intrinsics import LANES, c_function, f64s, helper, intrinsic, load_f64
from .machine_code import fortran_function
from .process import ir
from .strided_memory import Matrix, part_of, words_of

# --------------------------------------------------------------------------------------------------
# Tiles of a matrix product held in vector registers, for products too small or narrow for BLAS.
# A tile has 4 … 12 rows, as one to three vectors of four, and one to four columns. Rows that are no
# multiple of four need no masks: the last two vectors overlap, and the common part is computed
# twice.


_VECTORS = 3
#: Most and least rows of a tile, and how many products are summed over before it is written.
TILE_ROWS, LEAST_ROWS, TILE_DEPTH = LANES * _VECTORS, LANES, 256
#: Bytes of a copy of rows that are not contiguous, for a tile.
PANEL_BYTES = 8 * TILE_ROWS * TILE_DEPTH


class Rows(NamedTuple):
    """Rows of a tile: the address of the first vector of four, the byte offsets of the others from
    it, and the distance in bytes of the columns."""

    data: int
    second: int
    third: int
    step: int


def _add_products(builder, sums, rows, b, b_across):
    """The sums with the products of one column of a and one row of b added."""
    made = []
    for column in sums:
        factor = doubles.spread(builder, doubles.load(builder, b, ir.DoubleType()))
        products = [builder.fmul(row, factor, flags=("contract",)) for row in rows]
        made.append(
            [
                builder.fadd(total, product, flags=("contract",))
                for total, product in zip(column, products, strict=True)
            ]
        )
        b = builder.add(b, b_across)
    return made


def _store(builder, sums, offsets, c, c_across, added):
    """Set c to the sums, or add them: a column is read before it is written, as they overlap."""
    for column in sums:
        places = [builder.add(c, offset) for offset in offsets]
        if added:
            before = [doubles.load(builder, place) for place in places]
            column = [builder.fadd(*pair) for pair in zip(before, column, strict=True)]
        for place, total in zip(places, column, strict=True):
            doubles.store(builder, total, place)
        c = builder.add(c, c_across)


def _write(builder, sums, offsets, c, c_across, fresh):
    with builder.if_else(fresh) as (setting, adding):
        with setting:
            _store(builder, sums, offsets, c, c_across, False)
        with adding:
            _store(builder, sums, offsets, c, c_across, True)


def _tile(vectors, columns):
    @intrinsic(types.none(*map(words_of, (Rows, Matrix, Matrix)), types.boolean))
    def tile(builder, *words):
        """c += a·b, or c = a·b if it is fresh, for rows of a; b has at least one row."""
        a, second, third, a_step, *others = words
        b, k, _, b_step, b_across, c, _, _, _, c_across, fresh = others
        word, vector = ir.IntType(64), doubles.vector()
        offsets = [word(0), second, third][:vectors]
        before = builder.block
        loop, after = (builder.append_basic_block(name) for name in ("loop", "after"))
        builder.branch(loop)
        builder.position_at_end(loop)
        counts = [builder.phi(word) for _ in range(3)]
        sums = [[builder.phi(vector) for _ in offsets] for _ in range(columns)]
        p, at_a, at_b = counts
        rows = [doubles.load(builder, builder.add(at_a, offset)) for offset in offsets]
        made = _add_products(builder, sums, rows, at_b, b_across)
        counted = [
            builder.add(*pair) for pair in zip(counts, (word(1), a_step, b_step), strict=True)
        ]
        for phi, start, following in zip(counts, (word(0), a, b), counted, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(following, loop)
        for phis, column in zip(sums, made, strict=True):
            for phi, following in zip(phis, column, strict=True):
                phi.add_incoming(ir.Constant(vector, [0.0] * LANES), before)
                phi.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", counted[0], k), loop, after)
        builder.position_at_end(after)
        _write(builder, made, offsets, c, c_across, fresh)

    return tile


def _row_of_tiles(vectors):
    tile1, tile2, tile3, tile4 = (_tile(vectors, columns) for columns in (1, 2, 3, 4))

    @helper
    def row_of_tiles(rows, b, c, fresh):
        """The tiles of some rows of c: as few as can be, of about as many columns each."""
        tiles, j = (c.columns + 3) // 4, 0
        for tile in range(tiles):
            columns = (c.columns - j - 1) // (tiles - tile) + 1
            right, to = part_of(b, 0, j, b.rows, columns), part_of(c, 0, j, c.rows, columns)
            if columns == 4:
                tile4(rows, right, to, fresh)
            elif columns == 3:
                tile3(rows, right, to, fresh)
            elif columns == 2:
                tile2(rows, right, to, fresh)
            else:
                tile1(rows, right, to, fresh)
            j += columns

    return row_of_tiles


_rows1, _rows2, _rows3 = map(_row_of_tiles, (1, 2, 3))


@intrinsic(types.none(types.int64, types.int64, types.int64))
def _turn(builder, target, of, across):
    """Copy four lines of four doubles, `across` apart, as columns of a panel."""
    lines = []
    for _ in range(LANES):
        lines.append(doubles.load(builder, of))
        of = builder.add(of, across)
    a, b, c, d = lines
    low, high = [0, 4, 2, 6], [1, 5, 3, 7]
    even, odd = [0, 1, 4, 5], [2, 3, 6, 7]
    pairs = [
        doubles.mixed(builder, x, y, order) for order in (low, high) for x, y in ((a, b), (c, d))
    ]
    for order in (even, odd):
        for x, y in (pairs[:2], pairs[2:]):
            doubles.store(builder, doubles.mixed(builder, x, y, order), target)
            target = builder.add(target, target.type(8 * TILE_ROWS))


@helper
def panel_of(a, panel):
    """Copy a to where the elements of its columns are contiguous."""
    if a.column_stride == 8 and a.columns >= LANES:
        for i in range(0, a.rows, LANES):
            row = min(i, a.rows - LANES)
            for p in range(0, a.columns, LANES):
                column = min(p, a.columns - LANES)
                of = a.data + row * a.row_stride + column * 8
                _turn(panel + column * 8 * TILE_ROWS + row * 8, of, a.row_stride)
        return
    for p in range(a.columns):
        to, of = f64s(panel + p * 8 * TILE_ROWS), a.data + p * a.column_stride
        for i in range(a.rows):
            to[i] = load_f64(of, i * a.row_stride)


@helper
def product_by_tiles(a, b, c, fresh, panel):
    """c += a·b, or c = a·b, where columns of c are contiguous, of at least LEAST_ROWS elements.

    `panel` is for copies.
    """
    m, n, k = c.rows, c.columns, a.columns
    vectors, start = (m + 3) // 4, 0
    tiles = (vectors + 2) // 3
    for tile in range(tiles):
        taken = (vectors - 1) // (tiles - tile) + 1
        rows = min(taken * LEAST_ROWS, m - start)
        third = 8 * (rows - LEAST_ROWS)
        second = min(8 * LEAST_ROWS, third)
        for first in range(0, k, TILE_DEPTH):
            depth, new = min(TILE_DEPTH, k - first), fresh != 0 and first == 0
            left = part_of(a, start, first, rows, depth)
            right, to = part_of(b, first, 0, depth, n), part_of(c, start, 0, rows, n)
            lines = Rows(left.data, second, third, left.column_stride)
            if left.row_stride != 8:
                panel_of(left, panel)
                lines = Rows(panel, second, third, 8 * TILE_ROWS)
            if taken == 3:
                _rows3(lines, right, to, new)
            elif taken == 2:
                _rows2(lines, right, to, new)
            else:
                _rows1(lines, right, to, new)
        start += rows
        vectors -= taken


# --- BLAS for structural kernels: SciPy's products; all arguments are addresses, as in Fortran ----


def _named(name: str, arity: int):
    fortran_function(f"tapegrad_{name}", "blas", name, arity)
    return c_function(f"tapegrad_{name}", types.none(*[types.int64] * arity))


blas_dgemm, blas_sgemm = _named("dgemm", 13), _named("sgemm", 13)
blas_dgemv, blas_sgemv = _named("dgemv", 11), _named("sgemv", 11)
#: Equations with a triangular matrix, for matrices and for vectors.
blas_dtrsm, blas_dtrsv = _named("dtrsm", 11), _named("dtrsv", 8)
#: Products with a triangular matrix.
blas_dtrmm = _named("dtrmm", 11)

#: A matrix of a batch, in words: rows, columns, their strides in bytes, address, and the packed
#: copy if the strides do not suit BLAS (0: none; the address is then that of the original).
ROW_COUNT, COLUMN_COUNT, ROW_STRIDE, COLUMN_STRIDE, ADDRESS, PACKED = range(0, 48, 8)
MATRIX_BYTES = 48
#: Working memory of a call: three matrices, the arguments of BLAS, a panel of tiles.
ARGUMENTS = 3 * MATRIX_BYTES
PANEL = ARGUMENTS + 80
WORK_BYTES = PANEL + PANEL_BYTES
#: Products of fewer multiplications are cheaper without a call of BLAS.
FEW = 64
#: Products of which two sizes are at most this are faster by tiles.
NARROW = 48
#: But those with a vector are not from so many elements of the matrix on, if these are contiguous
#: along columns, or along rows, which tiles copy.
ALONG_COLUMNS, ALONG_ROWS = 1 << 13, 1 << 9
#: The matrices of a product that are added to.
LEFT, RIGHT, OUT = range(3)
#: The size of a product that is taken block by block.
ALONG_M, ALONG_N, ALONG_K = range(3)
#: The largest total size of a block of all matrices of a batch, and the least block.
BLOCK_BYTES, LEAST_BLOCK = 1 << 18, 48
