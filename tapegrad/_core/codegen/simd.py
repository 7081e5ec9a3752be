"""Vectors of four doubles in text for LLVM: loads, stores, one number in all lanes."""

from llvmlite import ir

LANES = 4
DOUBLE, INDEX = ir.DoubleType(), ir.IntType(32)
VECTOR = ir.VectorType(DOUBLE, LANES)


def load(builder, address, kind=VECTOR):
    """The vector at an address, which is a multiple of eight only."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 8
    return value


def store(builder, vector, address):
    builder.store(vector, builder.inttoptr(address, VECTOR.as_pointer())).align = 8


def mixed(builder, x, y, order):
    """Lanes of two vectors, those of the second counted from 4 on."""
    lanes = ir.Constant(ir.VectorType(INDEX, LANES), order)
    return builder.shuffle_vector(x, y, lanes)


def spread(builder, number):
    """A vector of one number."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(INDEX, 0))
    return mixed(builder, one, nothing, [0] * LANES)
