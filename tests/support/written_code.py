"""The text of native code run as Python: many loops are tried while LLVM compiles one."""

import ctypes

from program_parts import call
from rows import NUMPY

from tapegrad._program.replay import run_layout

_ROOM = ctypes.c_double * (1 << 40)


def _loads(kind):
    return lambda address, offset: kind.from_address(address + offset).value


def _stores(kind):
    def store(address, offset, value):
        kind.from_address(address + offset).value = value

    return store


class _Functions:
    """What `np` means in expressions of the table, of floats, for floats."""

    def __getattr__(self, name):
        return lambda *x: float(getattr(NUMPY, name)(*x))


NAMES = {
    **vars(run_layout),
    "np": _Functions(),
    "floats": _ROOM.from_address,
    "helper": lambda function: function,
    **dict.fromkeys(("apart", "inside", "unaliased"), lambda: None),
    "load_float": _loads(ctypes.c_double),
    "load_i32": _loads(ctypes.c_int32),
    "load_i64": _loads(ctypes.c_int64),
    "load_u8": _loads(ctypes.c_uint8),
    "store_f64": _stores(ctypes.c_double),
    "store_i64": _stores(ctypes.c_int64),
    "multiply_add": lambda x, y, z: x * y + z,
    "sum_of": lambda x, y: x + y,
    "select": lambda condition, x, y: x if condition else y,
}


class WrittenCode:
    """Takes the place of `compile_source` in scalar_code; addresses below 0 are its functions.

    The text is run without its head, which imports what NAMES has.
    """

    def __init__(self):
        self.functions = {}

    def compile(self, text, exports, single, **_):
        names, addresses = dict(NAMES), {}
        exec(text[text.index("INF, NAN =") :], names)
        for name in exports:
            addresses[name] = -1 - len(self.functions)
            self.functions[addresses[name]] = names[name]
        return addresses

    def call(self, address, run, data):
        if address < 0:
            return self.functions[address](run.address, data.ctypes.data)
        return call(address, run, data)
