"""Functions of one vector in all of Python's language, as readers of their bytecode meet them."""

import types

from . import arrays, containers, control, functions, iteration, numbers, objects

MODULES = arrays, containers, control, functions, iteration, numbers, objects
#: The functions by name.
FUNCTIONS = {
    name: f
    for module in MODULES
    for name, f in vars(module).items()
    if isinstance(f, types.FunctionType)
}
