"""CPython's own functions, for generated code; objects are addresses."""

import ctypes

from . import machine_types as types
from .intrinsics import apart, c_function, helper, store_i64

word = types.int64
object_malloc = c_function("PyObject_Malloc", word(word))
object_free = c_function("PyObject_Free", types.none(word))
gc_free = c_function("PyObject_GC_Del", types.none(word))
generic_alloc = c_function("PyType_GenericAlloc", word(word, word))
decref = c_function("Py_DecRef", types.none(word))
incref = c_function("Py_IncRef", types.none(word))
call_none = c_function("PyObject_CallNoArgs", word(word))
_call_array = c_function("PyObject_VectorcallDict", word(word, word, word, word))
float_from = c_function("PyFloat_FromDouble", word(types.float64))
word_from = c_function("PyLong_FromLongLong", word(word))
int_as_double = c_function("PyLong_AsDouble", types.float64(word))
int_as_word = c_function("PyLong_AsLongLong", word(word))
get_item = c_function("PyObject_GetItem", word(word, word))
set_object = c_function("PyObject_SetItem", types.int32(word, word, word))
error_clear = c_function("PyErr_Clear", types.none())
error_occurred = c_function("PyErr_Occurred", word())
number_add = c_function("PyNumber_Add", word(word, word))
number_subtract = c_function("PyNumber_Subtract", word(word, word))
number_multiply = c_function("PyNumber_Multiply", word(word, word))
number_divide = c_function("PyNumber_TrueDivide", word(word, word))
number_power = c_function("PyNumber_Power", word(word, word, word))
number_negative = c_function("PyNumber_Negative", word(word))
character = c_function("PyUnicode_ReadChar", types.int32(word, word))
tuple_size = c_function("PyTuple_Size", word(word))
tuple_new = c_function("PyTuple_New", word(word))
tuple_set = c_function("PyTuple_SetItem", types.int32(word, word, word))
thread_value = c_function("PyThread_tss_get", word(word))

if hasattr(ctypes.pythonapi, "PyObject_Vectorcall"):
    vectorcall = c_function("PyObject_Vectorcall", word(word, word, word, word))
else:  # Python 3.10, where it is no function of the process
    _thread = c_function("PyThreadState_Get", word())
    _call = c_function("_PyObject_MakeTpCall", word(word, word, word, word, word))

    @helper
    def vectorcall(callee, arguments, count, names):
        return _call(_thread(), callee, arguments, count, names)


@helper
def _called(callee, count, x, y, z):
    """The result of a call with up to three arguments.

    They are in an array: a C function that takes any number of them is not everywhere called as
    others are, as on Apple's arm64.
    """
    apart()
    arguments = object_malloc(24)
    store_i64(arguments, 0, x)
    store_i64(arguments, 8, y)
    store_i64(arguments, 16, z)
    made = _call_array(callee, arguments, count, 0)
    object_free(arguments)
    return made


@helper
def call_one(callee, x):
    return _called(callee, 1, x, 0, 0)


@helper
def call_two(callee, x, y):
    return _called(callee, 2, x, y, 0)


@helper
def call_three(callee, x, y, z):
    return _called(callee, 3, x, y, z)
