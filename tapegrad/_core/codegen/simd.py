"""Vectors of four doubles in text for LLVM: loads, stores, one number in all lanes."""

from .late_imports import ir

LANES = 4


def vector():
    """The type of a vector."""
    return ir.VectorType(ir.DoubleType(), LANES)


def load(builder, address, kind=None):
    """The vector at an address, which is a multiple of eight only, or what else there is."""
    value = builder.load(builder.inttoptr(address, (kind or vector()).as_pointer()))
    value.align = 8
    return value


def store(builder, made, address):
    """Write a vector."""
    builder.store(made, builder.inttoptr(address, vector().as_pointer())).align = 8


def mixed(builder, x, y, order):
    """Lanes of two vectors, those of the second counted from 4 on."""
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), order)
    return builder.shuffle_vector(x, y, lanes)


def spread(builder, number):
    """A vector of one number."""
    nothing = ir.Constant(vector(), ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return mixed(builder, one, nothing, [0] * LANES)
