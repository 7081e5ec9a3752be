"""The two compiled tensor types, made once, when the first tensor is.

`start` compiles (or loads) the recorder and builds the types through CPython's stable C interface
(`PyType_FromSpecWithBases`); nothing here runs per operation.
"""

import ctypes
import sys

import numpy as np

from ..codegen import compat, layout, machine_code, process
from ..codegen.factory import once
from ..recorder import scalar_operators

#: The recorder's state: one block of words that compiled code knows as `tapegrad_state`.
STATE = np.zeros(layout.STATE_BYTES_TOTAL // 8, np.int64)
_words = STATE.data  # a memoryview: Python reads and writes its words faster
_lock = process.lock()
_keep: list = []
_addresses: dict[str, int] = {}
#: Compiled code writes here until the very end of the process, after Python has cleared its
#: modules: this memory is never freed.
immortal = ctypes.pythonapi.Py_IncRef
mortal = ctypes.pythonapi.Py_DecRef
for _function in (immortal, mortal):
    _function.argtypes, _function.restype = [ctypes.py_object], None
immortal(STATE)

# The state of a thread for compiled code: whether it does not record.
_api = ctypes.pythonapi
_api.PyThread_tss_alloc.restype, _api.PyThread_tss_alloc.argtypes = ctypes.c_void_p, []
_api.PyThread_tss_create.argtypes = [ctypes.c_void_p]
_api.PyThread_tss_set.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_silent_key = _api.PyThread_tss_alloc()
_api.PyThread_tss_create(_silent_key)
STATE[layout.STATE_SILENT_KEY // 8] = _silent_key

_SLOTS = {
    "mp_ass_subscript": 3,
    "mp_subscript": 5,
    "nb_add": 7,
    "nb_multiply": 29,
    "nb_negative": 30,
    "nb_power": 33,
    "nb_subtract": 36,
    "nb_true_divide": 37,
    "tp_clear": 51,
    "tp_dealloc": 52,
    "tp_members": 72,
    "tp_getset": 73,
}
_INT, _OBJECT, _DOUBLE, _LONG_LONG, _READ_ONLY = 1, 16, 4, 17, 1
_BASE_TYPE, _NOT_CALLABLE = 1 << 10, 1 << 7
#: Whether patterns of sequences match an array, as from NumPy 2.5 on.
_SEQUENCE = np.ndarray.__flags__ & 1 << 5
_FAST_CALL, _KEYWORDS = 0x80, 0x02


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("address", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class Getter(ctypes.Structure):
    """CPython's PyGetSetDef, which descriptors of attributes hold."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    ]


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def set_word(offset: int, value: int) -> None:
    """Write one word of the recorder's state."""
    _words[offset // 8] = value


def get_word(offset: int) -> int:
    """Read one word of the recorder's state."""
    return _words[offset // 8]


def put_item(held: tuple, k: int, value) -> None:
    """Let a tuple, which stays the same object, have another item."""
    before = tuple.__getitem__(held, k)
    immortal(value)
    ctypes.c_void_p.from_address(id(held) + layout.TUPLE_ITEMS + 8 * k).value = id(value)
    mortal(before)


def set_silent(silent: bool) -> None:
    """Tell compiled code whether this thread does not record."""
    _api.PyThread_tss_set(_silent_key, int(silent))


def _getters(**functions: int) -> int:
    """The address of a table of attributes that compiled functions give."""
    table = (Getter * (len(functions) + 1))()
    for k, (name, address) in enumerate(functions.items()):
        table[k] = Getter(name.encode(), address, None, None, None)
    _keep.append(table)
    return ctypes.addressof(table)


def _make_type(name, size, flags, slots, members, bases):
    """A heap type with compiled slots; `members` are (name, C type, offset)."""
    rows = [_Member(n.encode(), kind, offset, _READ_ONLY, None) for n, kind, offset in members]
    rows.append(_Member(None, 0, 0, 0, None))
    member_array = (_Member * len(rows))(*rows)
    entries = [_Slot(_SLOTS[slot], address) for slot, address in slots.items()]
    entries.append(_Slot(_SLOTS["tp_members"], ctypes.addressof(member_array)))
    entries.append(_Slot(0, None))
    slot_array = (_Slot * len(entries))(*entries)
    spec = _Spec(name.encode(), size, 0, flags, slot_array)
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
    _keep.extend((member_array, slot_array, spec))
    return make(ctypes.addressof(spec), bases)


def builtins(names: tuple[str, ...], address: int) -> dict:
    """Builtin functions with CPython's fast calling convention, by name.

    They share one compiled function, which is given the number of the one that is called as self.
    """
    return {name: _builtin(name, address, number) for number, name in enumerate(names)}


def _builtin(name: str, address: int, own, flags: int = 0):
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p],
    )
    method = _Method(name.encode(), address, _FAST_CALL | flags, None)
    _keep.append(method)
    return make(ctypes.addressof(method), own, None)


def _add_method(kind: type, name: str, address: int) -> None:
    """Give a type a compiled method with CPython's fast calling convention, and with keywords."""
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    method = _Method(name.encode(), address, _FAST_CALL | _KEYWORDS, None)
    _keep.append(method)
    setattr(kind, name, make(kind, ctypes.addressof(method)))


@once
def _ufuncs() -> np.ndarray:
    """The table of ufuncs that compiled code computes for numbers."""
    words = np.zeros((layout.UFUNC_CALL_BYTES + layout.UFUNCS * layout.UFUNC_BYTES) // 8, np.int64)
    immortal(words)
    before = layout.UFUNC_CALL_BYTES // 8
    words[layout.UFUNC_CALL_SIZE // 8 : before] = (1, 8, 8, 8)
    set_word(layout.STATE_UFUNCS, words[before:].ctypes.data)
    return words[before:].reshape(layout.UFUNCS, -1)


def add_ufunc(ufunc, op: int, loop: tuple[int, int], last_is_tensor: bool) -> None:
    """Let compiled code compute a ufunc of numbers, as rows of an op.

    With `last_is_tensor` only where the last operand is recorded.
    """
    count = get_word(layout.STATE_UFUNC_COUNT)
    if count < layout.UFUNCS:
        immortal(ufunc)
        _ufuncs()[count] = (id(ufunc), op, ufunc.nin, *loop, last_is_tensor)
        set_word(layout.STATE_UFUNC_COUNT, count + 1)


def calling(ufunc, function, kind: int = layout.OF_NUMPY):
    """A builtin that calls a function, or faster for recorded numbers the ufunc that it means.

    `kind` is that of its results: OF_PYTHON, OF_NUMPY or OF_OPERANDS.
    """
    own = (ufunc, function, kind)
    return _builtin(ufunc.__name__, _addresses["ufunc_called"], own, _KEYWORDS)


@once
def _powers() -> np.ndarray:
    """The table of functions that raise arrays to powers, for twice the exponents."""
    words = np.zeros((2 * layout.POWER_MOST + 1, layout.POWER_BYTES // 8), np.int64)
    immortal(words)
    set_word(layout.STATE_POWERS, words.ctypes.data)
    return words


def add_power(exponent: float, function, code: int) -> None:
    """Let compiled code raise arrays to an exponent by a function, as rows of an op."""
    entry = _powers()[int(2 * exponent) + layout.POWER_MOST]
    if not entry.any():
        immortal(function)
        entry[:] = id(function), code


def set_array_ufunc(kind: type, function) -> None:
    """Compile `__array_ufunc__` of a class; a Python function has what is not compiled."""
    immortal(function)
    set_word(layout.STATE_UFUNC_PYTHON, id(function))
    _add_method(kind, "__array_ufunc__", _addresses["number_ufunc"])


def _is_laid_out() -> bool:
    """Whether objects lie in memory as `layout` says."""
    number, array = 1.25, np.arange(6.0).reshape(2, 3)
    boxed, pair = np.float64(number), (number, array)  # held while their memory is read
    single, whole = np.float32(number), np.int64(-3)
    word = ctypes.c_int64.from_address
    return (
        getattr(sys, "_is_gil_enabled", lambda: True)()
        and ctypes.c_double.from_address(id(number) + layout.FLOAT_VALUE).value == number
        and ctypes.c_double.from_address(id(boxed) + layout.FLOAT_VALUE).value == number
        and word(id(array) + layout.OBJECT_TYPE).value == id(np.ndarray)
        and word(id(array) + layout.ARRAY_DATA).value == array.ctypes.data
        and ctypes.c_int32.from_address(id(array) + layout.ARRAY_NDIM).value == 2
        and word(word(id(array) + layout.ARRAY_SHAPE).value + 8).value == 3
        and word(word(id(array) + layout.ARRAY_STRIDES).value).value == 24
        and word(id(array) + layout.ARRAY_DTYPE).value == id(np.dtype(np.float64))
        and word(id(pair) + layout.TUPLE_ITEMS + 8).value == id(array)
        and ctypes.c_float.from_address(id(single) + layout.FLOAT_VALUE).value == number
        and word(id(whole) + layout.FLOAT_VALUE).value == -3
    )


@once
def _writes() -> dict[str, int]:
    return scalar_operators.compile_writes()


def _compile_writes() -> None:
    """Compile the write to a subscript; its slot calls this at the first one."""
    set_word(layout.STATE_SET_SUBSCRIPT, _writes()["set_subscript"])


@once
def write_whole():
    """The builtin `write_whole(op, tensor, value)`; see `recorder.array_operators`."""
    return builtins(("write_whole",), _writes()["write_whole"])["write_whole"]


def _set_state(types: dict, slow: list, new_chunk) -> None:
    table = np.array([id(function) for function in slow], np.int64)
    for needed in (table, slow, new_chunk, _compile_writes, types["scalar"], types["array"]):
        immortal(needed)
    words = {
        layout.STATE_SCALAR_TYPE: id(types["scalar"]),
        layout.STATE_ARRAY_TYPE: id(types["array"]),
        layout.STATE_FLOAT_TYPE: id(float),
        layout.STATE_INT_TYPE: id(int),
        layout.STATE_BOOL_TYPE: id(bool),
        layout.STATE_SLICE_TYPE: id(slice),
        layout.STATE_TUPLE_TYPE: id(tuple),
        layout.STATE_NDARRAY_TYPE: id(np.ndarray),
        layout.STATE_NUMPY_FLOAT_TYPE: id(np.float64),
        layout.STATE_NUMPY_SINGLE_TYPE: id(np.float32),
        layout.STATE_NUMPY_INT_TYPE: id(np.int64),
        layout.STATE_FLOAT64: id(np.dtype(np.float64)),
        layout.STATE_FLOAT32: id(np.dtype(np.float32)),
        layout.STATE_NONE: id(None),
        layout.STATE_TRUE: id(True),
        layout.STATE_FALSE: id(False),
        layout.STATE_COPY: id(np.ndarray.copy),
        layout.STATE_ELLIPSIS: id(Ellipsis),
        layout.STATE_SLOW: table.ctypes.data,
        layout.STATE_NEW_CHUNK: id(new_chunk),
        layout.STATE_COMPILE_WRITES: id(_compile_writes),
        layout.STATE_UNRECORDED: layout.UNRECORDED,
    }
    for offset, value in words.items():
        set_word(offset, value)


def set_operator(number: int, function) -> None:
    """Set the Python function, kept by the caller, for cases that compiled slots do not cover."""
    table = get_word(layout.STATE_SLOW)
    ctypes.c_int64.from_address(table + number * 8).value = id(function)


def _never_called() -> int:
    """A slot that keeps a type from inheriting its base's part in garbage collection.

    Scalars are allocated without the collector's header, which it would otherwise write to.
    """
    return ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0


def build(base: type, make_array, slow: list, new_chunk) -> dict:
    """Compile the recorder and make the types.

    `base` is the Python class both derive from, `make_array(native)` derives the class of array
    tensors from the compiled one, `slow` are the functions for what compiled slots do not cover
    (in the order of `layout.OPERATORS`), `new_chunk` makes room on the tape.
    Returns the types under "scalar" and "array" and the recorder's functions by name.
    """
    with _lock:
        compat.require("object-layout", _is_laid_out)
        machine_code.name_address("tapegrad_state", STATE.ctypes.data)
        address = scalar_operators.compile_recorder()
        _addresses.update(address)
        operators = {slot: address[name] for name, slot in scalar_operators.SLOTS.items()}
        operators["mp_subscript"] = address["tensor_item"]
        operators["mp_ass_subscript"] = address["set_subscript"]
        operators["tp_getset"] = _getters(__class__=address["class_of"])
        set_word(layout.STATE_ARRAY_OPERATOR, address["array_operator"])
        scalar = _make_type(
            "tapegrad.Scalar",
            layout.SCALAR_BYTES,
            _NOT_CALLABLE,
            {**operators, "tp_dealloc": address["free_scalar"], "tp_clear": _never_called()},
            [
                ("_value", _DOUBLE, layout.SCALAR_VALUE),
                ("_id", _INT, layout.SCALAR_ID),
                ("_kind", _INT, layout.SCALAR_KIND),
            ],
            (base,),
        )
        native = _make_type(
            "tapegrad.NativeArray",
            layout.TENSOR_BYTES,
            _BASE_TYPE | _NOT_CALLABLE | _SEQUENCE,
            {**operators, "tp_dealloc": address["free_tensor"]},
            [
                ("_array", _OBJECT, layout.TENSOR_ARRAY),
                ("_id", _LONG_LONG, layout.TENSOR_ID),
                ("_chunk", _LONG_LONG, layout.TENSOR_CHUNK),
            ],
            (object,),
        )
        made = {"scalar": scalar, "array": make_array(native)}
        _set_state(made, slow, new_chunk)
        return made | builtins(scalar_operators.FUNCTIONS, address["call"])
