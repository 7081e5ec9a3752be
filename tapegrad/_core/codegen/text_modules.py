"""Generated text compiled: a module for LLVM of functions, for the types they are called with.

What the compiler does not know raises `NotCompiled`: nothing is guessed.
"""

from __future__ import annotations

import ast
from typing import Any

from . import collection
from .late_imports import ir
from .machine_types import Type, float32, float64, signature_of
from .parsing import statements_in
from .text_functions import TextFunction, Wider
from .text_reading import read_helper
from .text_values import NotCompiled


@collection.paused()
def lowered(source: str, exports: dict[str, tuple[str, str]], single: bool = False) -> Any:
    """A module with the functions of a text; `exports`: symbol → name in the text, signature.

    Numbers in the text are of float32 if that is `single`.
    """
    module = _Module(source, float32 if single else float64)
    for symbol, (name, signature) in exports.items():
        result, arguments = signature_of(signature)
        module.function(module.globals[name], [*arguments], symbol, result)
    return module.made


class _Module:
    """A text: its names, and the functions made of it by their types."""

    def __init__(self, source: str, number: Type):
        tree, self.number = statements_in(source), number
        self.globals: dict[str, Any] = {}
        for one in tree.body:
            if isinstance(one, ast.FunctionDef):
                self.globals[one.name] = one
            else:
                exec(compile(ast.Module([one], []), "<text>", "exec"), self.globals)
        self.made = ir.Module("text")
        self.functions: dict[tuple, tuple[Any, Any] | None] = {}

    def function(
        self, text: Any, kinds: list, symbol: str = "", result: Any = None
    ) -> tuple[Any, Any]:
        """A function for arguments of some types, and the type of its result."""
        key = text, str(kinds), symbol
        if key not in self.functions:
            self.functions[key] = None
            self.functions[key] = self._made(text, kinds, symbol, result)
        if (found := self.functions[key]) is None:
            raise NotCompiled("a function that calls itself")
        return found

    def _made(self, text: Any, kinds: list, symbol: str, result: Any) -> tuple[Any, Any]:
        node, names = self.text_of(text)
        module = names["__name__"] if "__name__" in names else "text"
        wider: dict[tuple[ast.stmt, str], Any] = {}
        while True:
            name = self.made.get_unique_name(f"{module}.{node.name}")
            one = TextFunction(self, node, names, kinds, name, wider)
            try:
                made, kind = one.finish(result)
            except Wider as found:
                wider |= {found.place: found.kind}
                del self.made.globals[name]
                continue
            made.linkage = "" if symbol else "internal"
            if symbol:
                made.name = symbol
                self.made.globals = {value.name: value for value in self.made.globals.values()}
            return made, kind

    def text_of(self, text: Any) -> tuple[ast.FunctionDef, dict[str, Any]]:
        """A function of the text, or a helper, and the names in its scope."""
        return (text, self.globals) if isinstance(text, ast.FunctionDef) else read_helper(text)
