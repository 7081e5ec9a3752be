"""Raw memory and C calls for generated code: loads, stores and named C functions as intrinsics.

Addresses are int64 throughout. Nothing here checks bounds: addresses were checked when the rows
were made.
"""

import functools

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ..remembered import remembered
from . import compat
from .compiler_choice import OPTIONS
from .external_symbols import name_symbols


class helper:  # noqa: N801  (a decorator)
    """A function of generated code that compiled functions call.

    Numba's object for it, which takes 0.2 ms to make, is made when something is compiled.
    """

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.py_func = function

    @remembered
    def dispatcher(self):
        return njit(**OPTIONS)(self.py_func)

    @property
    def _numba_type_(self):
        return self.dispatcher._numba_type_

    def __call__(self, *arguments):
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)


_KINDS = {
    "i64": (ir.IntType(64), types.int64),
    "i32": (ir.IntType(32), types.int32),
    "u8": (ir.IntType(8), types.uint8),
    "f64": (ir.DoubleType(), types.float64),
    "f32": (ir.FloatType(), types.float32),
    "c128": (ir.LiteralStructType([ir.DoubleType()] * 2), types.complex128),
}


def _load(kind):
    """Loads give int64 or a float: one integer type keeps the number of specialisations small.

    Of `c128` they give a complex number.
    """
    llvm_type, numba_type = _KINDS[kind]
    result = types.int64 if isinstance(numba_type, types.Integer) else numba_type

    @intrinsic
    def load(typingctx, address, offset):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(builder.add(*args), llvm_type.as_pointer())
            return context.cast(builder, builder.load(pointer), numba_type, result)

        return result(types.int64, types.int64), codegen

    return load


def _store(kind):
    llvm_type, numba_type = _KINDS[kind]
    given = types.int64 if isinstance(numba_type, types.Integer) else numba_type

    @intrinsic
    def store(typingctx, address, offset, value):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(builder.add(args[0], args[1]), llvm_type.as_pointer())
            builder.store(context.cast(builder, args[2], given, numba_type), pointer)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, given), codegen

    return store


load_i64, load_i32, load_u8 = _load("i64"), _load("i32"), _load("u8")
load_f64, load_f32, load_c128 = _load("f64"), _load("f32"), _load("c128")
store_i64, store_i32 = _store("i64"), _store("i32")
store_f64, store_f32, store_u8 = _store("f64"), _store("f32"), _store("u8")
store_c128 = _store("c128")


def _pointer(kind):
    llvm_type, numba_type = _KINDS[kind]

    @intrinsic
    def pointer(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], llvm_type.as_pointer())

        return types.CPointer(numba_type)(types.int64), codegen

    return pointer


#: An address as a typed pointer, to index with `[]` in kernels.
f64s, f32s, i64s = _pointer("f64"), _pointer("f32"), _pointer("i64")
i32s, u8s, c128s = _pointer("i32"), _pointer("u8"), _pointer("c128")


@intrinsic
def bits_of(typingctx, value):
    """The 64 bits of a double, as an integer."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


def _fits(operation):
    """Whether an operation of two integers has a result of 64 bits: Numba's own assume so."""

    @intrinsic
    def fits(typingctx, x, y):
        def codegen(context, builder, signature, args):
            pair = getattr(builder, f"{operation}_with_overflow")(*args)
            return builder.not_(builder.extract_value(pair, 1))

        return types.boolean(types.int64, types.int64), codegen

    return fits


sum_fits, difference_fits, product_fits = _fits("sadd"), _fits("ssub"), _fits("smul")


def floats(*kinds):
    """The signature of a function of floats: in float32 where all of them are, else in float64."""
    kind = types.float32 if all(one == types.float32 for one in kinds) else types.float64
    return kind(*[kind] * len(kinds))


@intrinsic
def sum_of(typingctx, total, part):
    """total + part for a sum whose order does not matter, so that it is taken in lanes."""

    def codegen(context, builder, signature, args):
        return builder.fadd(*args, flags=("reassoc",))

    return floats(total, part), codegen


@intrinsic
def single(typingctx, value):
    """A number rounded to float32."""

    def codegen(context, builder, signature, args):
        return args[0]

    return types.float32(types.float32), codegen


@intrinsic
def larger_of(typingctx, x, y):
    """The larger, NaN if one is: a loop that searches for the largest with it is vectorised."""

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double] * 2)
        return builder.call(builder.module.declare_intrinsic("llvm.maximum", [double], kind), args)

    return types.float64(types.float64, types.float64), codegen


@intrinsic
def multiply_add(typingctx, x, y, z):
    """x·y + z, rounded once where the processor does that in one instruction."""

    def codegen(context, builder, signature, args):
        number = args[0].type
        kind = ir.FunctionType(number, [number] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [number], kind), args)

    return floats(x, y, z), codegen


@intrinsic
def exchange(typingctx, address, value):
    """Write a word and return the old value, atomically."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("xchg", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


def _kept(attribute, doc):
    """A word for the first line of a function of generated code: what LLVM is to do with it."""

    def word(typingctx):
        def codegen(context, builder, signature, args):
            builder.function.attributes.add(attribute)
            return context.get_dummy_value()

        return types.none(), codegen

    word.__doc__ = doc
    return intrinsic(word)


apart = _kept("noinline", "Keep this function by itself: it is long, or rarely called.")
inside = _kept("alwaysinline", "Put this function into each of its callers: it is on a hot road.")


@intrinsic
def unaliased(typingctx):
    """Memory that is written through a pointer among this function's arguments is not reached
    through another: loops need not test for overlaps, and are vectorised."""

    def codegen(context, builder, signature, args):
        pointers = [kind.as_pointer() for kind in (ir.DoubleType(), ir.FloatType())]
        for argument in builder.function.args:
            if argument.type in pointers:
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    return types.none(), codegen


def words(builder, values):
    """Arguments as C takes them: the words of a tuple one by one."""
    for value in values:
        if isinstance(value.type, ir.ArrayType):
            yield from (builder.extract_value(value, k) for k in range(value.type.count))
        else:
            yield value


def _found_by_numba(symbol: str) -> None:
    """Name a symbol while the code that calls it is made, where Numba itself will load that."""
    if not compat.is_assumed("numba-pipeline"):
        name_symbols([symbol])


def c_function(name, signature):
    """A function of the process, found by its symbol; `signature` is a Numba signature."""
    result, arity = signature.return_type, len(signature.args)

    def build(typingctx):
        def codegen(context, builder, sig, args):
            returns = ir.VoidType() if result == types.none else context.get_value_type(result)
            value = word_call(builder, name, returns, [*words(builder, args)])
            return context.get_dummy_value() if result == types.none else value

        return signature, codegen

    return with_arity(build, arity)


def word_call(builder, name, returns, taken):
    """The call of a C function, found by its symbol, with words of LLVM's."""
    _found_by_numba(name)
    function = builder.module.globals.get(name)
    if function is None:
        function_type = ir.FunctionType(returns, [word.type for word in taken])
        function = ir.Function(builder.module, function_type, name)
    return builder.call(function, taken)


def with_arity(build, arity):
    """`build` as an intrinsic of `arity` arguments (Numba reads the number from the signature)."""
    names = "".join(f", a{k}" for k in range(arity))
    return intrinsic(eval(f"lambda typingctx{names}: build(typingctx)", {"build": build}))


def call_address(signature):
    """Calls the C function at an address: `f(address, *arguments)`."""
    arity = len(signature.args) + 1
    result = signature.return_type

    def build(typingctx):
        def codegen(context, builder, sig, args):
            taken = [*words(builder, args[1:])]
            returns = ir.VoidType() if result == types.none else context.get_value_type(result)
            pointer_type = ir.FunctionType(returns, [word.type for word in taken]).as_pointer()
            value = builder.call(builder.inttoptr(args[0], pointer_type), taken)
            return context.get_dummy_value() if result == types.none else value

        return result(types.int64, *signature.args), codegen

    return with_arity(build, arity)


#: Calls the bridge to a function of a user's: `called(address, entries)`.
called = call_address(types.int64(types.int64))

#: Calls a function of a graph: `called_with(address, frame, data)`.
called_with = call_address(types.int64(types.int64, types.int64))


def global_address(name):
    """The address that a symbol names."""

    @intrinsic
    def address(typingctx):
        def codegen(context, builder, signature, args):
            _found_by_numba(name)
            variable = builder.module.globals.get(name)
            if variable is None:
                variable = ir.GlobalVariable(builder.module, ir.IntType(8), name)
            return builder.ptrtoint(variable, ir.IntType(64))

        return types.int64(), codegen

    return address


_word = types.int64
malloc = c_function("malloc", _word(_word))
calloc = c_function("calloc", _word(_word, _word))
free = c_function("free", types.none(_word))
memcpy = c_function("memcpy", _word(_word, _word, _word))
memset = c_function("memset", _word(_word, _word, _word))
