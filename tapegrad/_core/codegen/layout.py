"""The layout of memory: the one description shared by Python and compiled code.

A chunk is one block: a header, then rows of 24 bytes, then references of 16 bytes.

    row        int32 op | int32 a | int32 b, int32 c  or  float64 constant | float64 value
    reference  int64 what | int32 id | int32 tag

Scalar rows: op = 4·code + kind; `a` and `b` are ids of rows. Array rows: op = ARRAY + code, `a` is
the number of the first reference in the chunk, `b` how many there are; the last one is the output.
An id is chunk·ROWS + position. A row that a backward pass has used up has its op negated.
"""

ROWS_BITS = 12
ROWS = 1 << ROWS_BITS
ROW_BYTES = 24
REFERENCES = 3 * ROWS
REFERENCE_BYTES = 16

# header words of a chunk, byte offsets
LIVE = 0  # tensors that point into this chunk
USED_ROWS = 8
USED_REFERENCES = 16
WRITES = 24  # in-place writes among the rows
LEAVES = 32  # scalar inputs among the rows
HEADER_BYTES = 64
CHUNK_BYTES = HEADER_BYTES + ROWS * ROW_BYTES + REFERENCES * REFERENCE_BYTES

# kinds of a scalar row: what its operands are
ROW_ROW, ROW_CONSTANT, CONSTANT_ROW = 0, 1, 2

# ops below the first code of the table
NOTHING = 0  # an empty row
LEAF = 1  # an input; reference `a` holds its array, if it is one; then the value is `store.now()`
LOAD = 3  # a cell of an array: a = id of the buffer, b = offset in it, in units of 4 bytes
DEAD = 4  # a leaf whose tensor is gone
CONSTANT = 5  # an array that is not an input; reference `a` holds it
CHANGED = 7  # an input written since; another row stands for it now
# a cell of an array written: a, b as for LOAD, c = row of what was written (−2: used up); the value
# is what the cell held, or while a sweep is below the row what was written
STORE = 8
NUMBER = 9  # a number that was written to a cell
FIRST_CODE = 3  # scalar ops are 4·(code + 1) + kind: they start at 4·FIRST_CODE
ARRAY = 1 << 16

# tags of a reference
TAG_ARRAY, TAG_SCALAR, TAG_CONSTANT, TAG_INT, TAG_OBJECT = 0, 1, 2, 3, 4

# CPython and NumPy: fields of their objects, byte offsets (checked when compiled code starts)
OBJECT_TYPE = 8
FLOAT_VALUE = 16
ARRAY_DATA, ARRAY_NDIM, ARRAY_SHAPE, ARRAY_STRIDES, ARRAY_DTYPE, ARRAY_FLAGS = (
    16,
    24,
    32,
    40,
    56,
    64,
)
C_CONTIGUOUS, ALIGNED, WRITEABLE = 1, 0x100, 0x400

TUPLE_ITEMS = 24

# our own objects
SCALAR_VALUE, SCALAR_ID, SCALAR_KIND, SCALAR_CHUNK, SCALAR_BYTES = 16, 24, 28, 32, 40
#: Of whom a number is where nothing is recorded; the result of an operator is of the last of these
#: that an operand is of. Of a function it may be OF_OPERANDS, too.
OF_OPERANDS, OF_PYTHON, OF_EITHER, OF_NUMPY = range(-1, 3)
TENSOR_ARRAY, TENSOR_ID, TENSOR_CHUNK, TENSOR_BYTES = 16, 24, 32, 40
TENSOR_META = TENSOR_BYTES  # of the derived class; 0 or the address of an object
STORAGE_TENSOR = 24  # of a Storage: the identity of its buffer's row, or None

# operators of tensors, in the order of the table of Python functions for cases that are not
# compiled
ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, GET_ITEM, NEGATIVE, SET_ITEM, DELETE_ITEM = range(9)
OPERATORS = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "item",
    "negative",
    "set_item",
    "delete_item",
    "power_modulo",
)

# the recorder's state, words
(
    STATE_ROW,
    STATE_ROW_END,
    STATE_ID,
    STATE_CHUNK,
    STATE_SCALAR_TYPE,
    STATE_FLOAT_TYPE,
    STATE_NEW_CHUNK,
    STATE_ARRAY_TYPE,
    STATE_NDARRAY_TYPE,
    STATE_FLOAT64,
    STATE_SPECIAL,
    STATE_REFERENCE,
    STATE_REFERENCE_END,
    STATE_SLOW,
    STATE_INT_TYPE,
    STATE_NUMPY_FLOAT_TYPE,
    STATE_BYTES,
    STATE_BYTES_LIMIT,
    STATE_ARRAY_OPERATOR,
    STATE_SLICE_TYPE,
    STATE_TUPLE_TYPE,
    STATE_BOOL_TYPE,
    STATE_FLOAT32,
    STATE_NONE,
    STATE_TRUE,
    STATE_FALSE,
    STATE_COPY,
    STATE_ELLIPSIS,
    STATE_SILENT,
    STATE_SILENT_KEY,
    STATE_VERSION,
    STATE_SET_SUBSCRIPT,
    STATE_COMPILE_WRITES,
    STATE_CLASS,
    STATE_NUMPY_SINGLE_TYPE,
    STATE_NUMPY_INT_TYPE,
    STATE_UFUNCS,
    STATE_UFUNC_COUNT,
    STATE_UFUNC_PYTHON,
    STATE_POWERS,
) = range(0, 8 * 40, 8)
#: The number of tensors that are alive, and what is the id of those that are not recorded.
STATE_TENSORS, STATE_UNRECORDED = 8 * 40, 8 * 41
#: The number of contexts in which Python looks at results that are not finite (`tensor.runtime`).
STATE_CAREFUL = 8 * 42
STATE_BYTES_TOTAL = 8 * 48
#: The ids of tensors that are not recorded: of most, and of those made in
#: functions of users that are entered. See also PASSED and UNKNOWN.
UNRECORDED, MADE_INSIDE = -1, -4

#: An entry of the table of ufuncs that compiled code computes for numbers (`number_ufuncs`).
UFUNC, UFUNC_OP, UFUNC_INPUTS, UFUNC_LOOP, UFUNC_DATA, UFUNC_LAST_IS_TENSOR = range(0, 48, 8)
UFUNC_BYTES = 48
#: Most of them.
UFUNCS = 256
#: The call of a loop, before the table: numbers, their addresses, how many of each, steps.
UFUNC_CALL_X, UFUNC_CALL_Y, UFUNC_CALL_OUT = 0, 8, 16
UFUNC_CALL_ADDRESSES, UFUNC_CALL_SIZE, UFUNC_CALL_STEPS = 24, 48, 56
UFUNC_CALL_BYTES = 80

#: An entry of the table of functions of arrays for exponents, and twice its largest exponent.
POWER_FUNCTION, POWER_CODE, POWER_BYTES, POWER_MOST = 0, 8, 16, 32

#: The mode of compiled operators in a thread: record, only compute, or leave everything to Python.
RECORDING, SILENT, WATCHED = range(3)

# the frame of one sweep, words
(
    FRAME_CHUNKS,
    FRAME_ADJOINTS,
    FRAME_LOWEST,
    FRAME_ORDER,
    FRAME_SEEDS,
    FRAME_KERNELS64,
    FRAME_KERNELS32,
    FRAME_STRUCTURAL,
    FRAME_USED,
    FRAME_SCRATCH,
    FRAME_FIRST,
    FRAME_WANTED,
    FRAME_WANTED_MASK,
    FRAME_WANTED_DTYPE,
    FRAME_FLOAT32,
    FRAME_RETAIN,
    FRAME_SEQUENCE,
    FRAME_FLOAT64,
    FRAME_AT_ORDER,
    FRAME_AT_POSITION,
    FRAME_START_ORDER,
    FRAME_START_POSITION,
    FRAME_STATUS,
    FRAME_MET_FREED,
    FRAME_POINTWISE,
    FRAME_POOL,
    FRAME_INPUTS,
    FRAME_CELLS,
    FRAME_STOPS,
    FRAME_STOP,
    FRAME_MARKS,
    FRAME_LOADS,
    FRAME_LOADS_COUNT,
    FRAME_ANSWERED,
    FRAME_TIMES,
    FRAME_WRITES,
    FRAME_SCALARS,
    FRAME_BLOCK_OF,
    FRAME_ADD_BLOCK,
    FRAME_EXCHANGE,
    FRAME_EARLIER_WRITES,  # of the chunks before the newest; −1 if they have not been counted
    FRAME_CHOICES,
    FRAME_TANGENTS,  # the frame of the tangents that a sweep of second order reads
    FRAME_TANGENT_KERNELS64,
    FRAME_TANGENT_KERNELS32,
    FRAME_CARRY,  # the function that computes tangents of an element-wise row, its address
    FRAME_TANGENT_STRUCTURAL,  # kernels by code: 0 for one not compiled yet, 1 for none
    FRAME_MET_USED,  # whether a forward traversal has passed a used-up row
) = range(0, 8 * 48, 8)
FRAME_BYTES = 8 * 56

# why a sweep returned
DONE, WANT_KERNEL, WANT_STRUCTURAL, MET_FREED, MET_CHANGED, STOPPED = range(6)
REFUSED, CALL_PYTHON, WANT_SCALARS, WANT_POINTWISE, WANT_STRIDED, MET_UNKNOWN = range(6, 12)
WANT_RULE, LOADS_FULL, FAILED, WANT_CARRY = range(16, 20)

#: Rows for the value of a write: adjoints passed on by a sweep that has ended; never recorded.
PASSED, UNKNOWN = -2, -3

#: The requests to a structural kernel.
REVERSE, REDO, UNDO, FORWARD = range(4)

#: Elements per block of a run of element-wise rows: operands and adjoints of a run stay in cache.
BLOCK = 1024
#: Adjoint buffers kept for the next sweep: their number, the least and the greatest size in bytes
#: of each, and the limit of all together, as (address, bytes) pairs; then the total of bytes.
POOL, POOL_LEAST, POOL_MOST, POOL_TOTAL = 256, 1 << 14, 1 << 25, 1 << 28
POOL_BYTES = POOL * 16 + 8
#: Tables of cells, of one seed, that a sweep leaves for the next.
KEPT_CELLS = 16
#: Bytes of a cache line; vector loads that cross one take longer.
CACHE_LINE = 64
#: Results of this many bytes get pooled memory (see tensor.buffer_pool).
LARGE = 1 << 18
#: Most operands of an element-wise row, and most rows swept together.
OPERANDS, RUN = 8, 64
#: Kernels of an element-wise operation: one for each set of operands that have an adjoint, and for
#: operations of no more than FEW_OPERANDS for each set that are one value in a whole block, and
#: each set whose adjoint is set and not added to.
FEW_OPERANDS = 3
MASKS = 1 << 3 * FEW_OPERANDS
#: Masks of the table of operations in use: which values the partial derivatives read (a bit for
#: each operand, then the output), from a further bit on which partial derivatives are zero, and the
#: kind of the operation.
FLAT_SHIFT, UNIT_SHIFT, POINTWISE_BIT, WRITE_BIT = 16, 24, 1 << 32, 1 << 33
#: Most dimensions of an array (NumPy's own limit is 64).
DIMENSIONS = 64

#: An entry of a call of a user's function: see ops.custom_call.
CALL_DATA, CALL_TARGET, CALL_SHAPE, CALL_VALUE, CALL_ADJOINT, CALL_BYTES = range(0, 48, 8)

#: The bits of −0.0: an adjoint that nothing has touched yet.
UNTOUCHED = -(1 << 63)

# where adjoints are written as rows: marks of rows, and the number of reads of cells noted at once
ACTIVE, STOP, WRITTEN = 1, 2, 4
# … and where a partial derivative selects by value: the current values decide; or rows decide, for
# the values of a later run of a program; or rows decide in products of 0 and infinity, too
BY_VALUE, TRACED, CAREFUL = range(3)
LOADS = 4096
