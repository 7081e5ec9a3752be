"""Raw memory and C calls in generated code, and vectors of four doubles."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

from . import machine_types as types
from .machine_code import SLOT
from .process import ir

# --------------------------------------------------------------------------------------------------
# Raw memory and C calls for generated code: loads, stores and named C functions as intrinsics.
# Addresses are int64 throughout. Nothing here checks bounds: addresses were checked when the rows
# were made.


class helper:
    """A function of generated code that compiled functions call; the compiler reads its text."""

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self.py_func, self.__name__ = function, function.__name__

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.__name__} is called by compiled code only")


class Intrinsic:
    """A function of generated code whose instructions `make(builder, *words)` writes.

    `signature` may depend on the types of the arguments: it is a function of them then.
    """

    def __init__(self, signature: Any, make: Callable):
        self._signature, self.make, self.__doc__ = signature, make, make.__doc__

    def signature(self, kinds: tuple) -> types.Signature:
        """The signature for arguments of these types."""
        given = self._signature
        return given if isinstance(given, types.Signature) else given(*kinds)


def intrinsic(signature: Any) -> Callable[[Callable], Intrinsic]:
    """Decorate what writes the instructions of a function: its words are those of the arguments."""
    return functools.partial(Intrinsic, signature)


_KINDS = {
    "i64": types.int64,
    "i32": types.int32,
    "u8": types.uint8,
    "f64": types.float64,
    "f32": types.float32,
    "c128": types.complex128,
}


def converted(builder: Any, word: Any, given: types.Type, wanted: types.Type) -> Any:
    """A word of one type made one of another: whole numbers are cut off or continued."""
    if given is wanted:
        return word
    target = wanted.llvm
    if given.is_integer and wanted.is_integer:
        if wanted.bits <= given.bits:
            return builder.trunc(word, target)
        return builder.sext(word, target) if given.signed else builder.zext(word, target)
    if given.is_integer and wanted.is_float:
        return builder.sitofp(word, target) if given.signed else builder.uitofp(word, target)
    if given is types.float64 and wanted is types.float32:
        return builder.fptrunc(word, target)
    if given is types.float32 and wanted is types.float64:
        return builder.fpext(word, target)
    if given is types.boolean and wanted.is_integer:
        return builder.zext(word, target)
    if given is types.boolean and wanted.is_float:
        return builder.uitofp(word, target)
    if given.is_integer and wanted is types.boolean:
        return builder.icmp_unsigned("!=", word, word.type(0))
    raise TypeError(f"generated code has {given} where {wanted} is taken")


def _load(kind: str) -> Intrinsic:
    """Loads give int64 or a float: one integer type keeps the number of specialisations small.

    Of `c128` they give a complex number.
    """
    stored = _KINDS[kind]
    result = types.int64 if stored.is_integer else stored

    @intrinsic(result(types.int64, types.int64))
    def load(builder, address, offset):
        pointer = builder.inttoptr(builder.add(address, offset), stored.llvm.as_pointer())
        return converted(builder, builder.load(pointer), stored, result)

    return load


def _store(kind: str) -> Intrinsic:
    stored = _KINDS[kind]
    given = types.int64 if stored.is_integer else stored

    @intrinsic(types.none(types.int64, types.int64, given))
    def store(builder, address, offset, value):
        pointer = builder.inttoptr(builder.add(address, offset), stored.llvm.as_pointer())
        builder.store(converted(builder, value, given, stored), pointer)

    return store


load_i64, load_i32, load_u8 = _load("i64"), _load("i32"), _load("u8")
load_f64, load_f32, load_c128 = _load("f64"), _load("f32"), _load("c128")
store_i64, store_i32 = _store("i64"), _store("i32")
store_f64, store_f32, store_u8 = _store("f64"), _store("f32"), _store("u8")
store_c128 = _store("c128")


def _pointer(kind: str) -> Intrinsic:
    pointed = types.pointer_to(_KINDS[kind])

    @intrinsic(pointed(types.int64))
    def pointer(builder, address):
        return builder.inttoptr(address, pointed.llvm)

    return pointer


#: An address as a typed pointer, to index with `[]` in kernels.
f64s, f32s, i64s = _pointer("f64"), _pointer("f32"), _pointer("i64")
i32s, u8s, c128s = _pointer("i32"), _pointer("u8"), _pointer("c128")


def constants(values: tuple) -> Intrinsic:
    """A function without arguments that gives a pointer to constant doubles, for loops."""
    name = f"constants_{hashlib.sha256(repr(values).encode()).hexdigest()[:16]}"

    @intrinsic(types.pointer_to(types.float64)())
    def pointer(builder):
        found = builder.module.globals.get(name)
        if found is None:
            kind = ir.ArrayType(ir.DoubleType(), len(values))
            found = ir.GlobalVariable(builder.module, kind, name)
            found.linkage, found.global_constant, found.unnamed_addr = "private", True, True
            found.initializer = ir.Constant(kind, [*values])
        return builder.bitcast(found, ir.DoubleType().as_pointer())

    return pointer


def room(count: int) -> Intrinsic:
    """A function without arguments that gives a pointer to room for doubles, of its caller."""

    @intrinsic(types.pointer_to(types.float64)())
    def pointer(builder):
        with builder.goto_entry_block():
            return builder.alloca(ir.DoubleType(), count)

    return pointer


@intrinsic(types.int64(types.float64))
def bits_of(builder, value):
    """The 64 bits of a double, as an integer."""
    return builder.bitcast(value, ir.IntType(64))


def _fits(operation: str) -> Intrinsic:
    """Whether an operation of two integers has a result of 64 bits: other sums assume so."""

    @intrinsic(types.boolean(types.int64, types.int64))
    def fits(builder, x, y):
        pair = getattr(builder, f"{operation}_with_overflow")(x, y)
        return builder.not_(builder.extract_value(pair, 1))

    return fits


sum_fits, difference_fits, product_fits = _fits("sadd"), _fits("ssub"), _fits("smul")


def floats(*kinds: Any) -> types.Signature:
    """The signature of a function of floats: in float32 where all of them are, else in float64."""
    kind = types.float32 if all(one is types.float32 for one in kinds) else types.float64
    return kind(*[kind] * len(kinds))


@intrinsic(floats)
def sum_of(builder, total, part):
    """total + part for a sum whose order does not matter, so that it is taken in lanes."""
    return builder.fadd(total, part, flags=("reassoc",))


@intrinsic(types.float32(types.float32))
def single(builder, value):
    """A number rounded to float32."""
    return value


@intrinsic(types.float64(types.float64, types.float64))
def larger_of(builder, x, y):
    """The larger, NaN if one is: a loop that searches for the largest with it is vectorised."""
    double = ir.DoubleType()
    kind = ir.FunctionType(double, [double] * 2)
    return builder.call(builder.module.declare_intrinsic("llvm.maximum", [double], kind), [x, y])


@intrinsic(floats)
def multiply_add(builder, x, y, z):
    """x·y + z, rounded once where the processor does that in one instruction."""
    kind = ir.FunctionType(x.type, [x.type] * 3)
    made = builder.module.declare_intrinsic("llvm.fmuladd", [x.type], kind)
    return builder.call(made, [x, y, z])


@intrinsic(types.int64(types.int64, types.int64))
def exchange(builder, address, value):
    """Write a word and return the old value, atomically."""
    pointer = builder.inttoptr(address, ir.IntType(64).as_pointer())
    return builder.atomic_rmw("xchg", pointer, value, "seq_cst")


def _kept(attribute: str, doc: str) -> Intrinsic:
    """A word for the first line of a function of generated code: what LLVM is to do with it."""

    def word(builder):
        builder.function.attributes.add(attribute)

    word.__doc__ = doc
    return Intrinsic(types.none(), word)


apart = _kept("noinline", "Keep this function by itself: it is long, or rarely called.")
inside = _kept("alwaysinline", "Put this function into each of its callers: it is on a hot road.")


@intrinsic(types.none())
def unaliased(builder):
    """Memory that is written through a pointer among this function's arguments is not reached
    through another: loops need not test for overlaps, and are vectorised."""
    pointers = [kind.as_pointer() for kind in (ir.DoubleType(), ir.FloatType())]
    for argument in builder.function.args:
        if argument.type in pointers:
            argument.add_attribute("noalias")


def c_function(name: str, signature: types.Signature) -> Intrinsic:
    """A function of the process, found by its symbol; it takes descriptors word by word."""

    def called(builder, *words):
        return word_call(builder, name, signature.return_type.llvm, [*words])

    return Intrinsic(signature, called)


def word_call(builder: Any, name: str, returns: Any, taken: list) -> Any:
    """The call of a C function, found by its symbol, with words of LLVM's."""
    function = builder.module.globals.get(name)
    if function is None:
        function_type = ir.FunctionType(returns, [word.type for word in taken])
        function = ir.Function(builder.module, function_type, name)
    return builder.call(function, taken)


def call_address(signature: types.Signature) -> Intrinsic:
    """Calls the C function at an address: `f(address, *arguments)`."""
    result = signature.return_type

    def call(builder, address, *words):
        kind = ir.FunctionType(result.llvm, [word.type for word in words]).as_pointer()
        return builder.call(builder.inttoptr(address, kind), words)

    return Intrinsic(result(types.int64, *signature.args), call)


#: Calls the bridge to a function of a user's: `called(address, entries)`.
called = call_address(types.int64(types.int64))

#: Calls a function of a graph: `called_with(address, frame, data)`.
called_with = call_address(types.int64(types.int64, types.int64))


def global_address(name: str) -> Intrinsic:
    """The address that a symbol names, read from a word, which a library has of its own."""
    word = SLOT + name

    @intrinsic(types.int64())
    def address(builder):
        variable = builder.module.globals.get(word)
        if variable is None:
            variable = ir.GlobalVariable(builder.module, ir.IntType(64), word)
        return builder.load(variable)

    return address


_word = types.int64
malloc = c_function("malloc", _word(_word))
calloc = c_function("calloc", _word(_word, _word))
free = c_function("free", types.none(_word))
memcpy = c_function("memcpy", _word(_word, _word, _word))
memset = c_function("memset", _word(_word, _word, _word))


# --- Vectors of four doubles in text for LLVM: loads, stores, one number in all lanes -------------


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
