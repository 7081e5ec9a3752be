"""The kernel factory: Python source text in, addresses of compiled C functions out.

The machine code of a text is kept in a file named by the hash of the text and of all that it is
made from: the definitions that it includes, those that compile it, versions, the processor.
Therefore a stale result can never be loaded. What is no such file is compiled anew. Before all that
a text is looked for among those that were compiled when the package was built (`prebuilt`).
"""

import ctypes
import functools
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import prebuilt, process
from .machine_code import address_of, assembled, is_late, load, loading, machine_code, magic, parsed
from .machine_files import announced, cache_folder, read, versions
from .prebuilt import Text
from .sources import included, keep
from .text_functions import lowered
from .uninterrupted import uninterrupted
from .vector_math import variants

#: What makes machine code of texts.
MAKER = "code_of"
#: Addresses of the functions of a text, by its digest.
_loaded: dict[str, dict[str, int]] = {}
#: Locks of texts that are compiled now, by the digest.
_under_way: dict[str, Any] = {}


@functools.cache
def _machine() -> str:
    """Hash of what machine code depends on, beside what it is made from."""
    given = versions() + uninterrupted(magic) + repr(variants())
    return hashlib.sha256(given.encode()).hexdigest()


def _digest(*given: str) -> str:
    return hashlib.sha256("\n".join((_machine(), *given)).encode()).hexdigest()[:24]


def symbols_of(exports: Iterable[str], name: str) -> dict[str, str]:
    """Names that are known everywhere, by names in a text that has a name itself."""
    return {exported: f"tapegrad_{name}_{exported}" for exported in exports}


def _kept(source: str, digest: str, maker: str, *given: str) -> tuple[str, Path | None]:
    """A name for what a function of this module makes of a text and of what else is given, and the
    file that keeps it; None if nothing may be kept.
    """
    definitions = included(source, digest, (__name__, maker))
    if definitions is None:
        return digest, None
    name = _digest(definitions, *given)
    return name, cache_folder() / f"k_{name}.o"


def compile_source(
    source: str, exports: dict[str, str], single: bool = False, *, fixed: bool = True
) -> dict[str, int]:
    """Compile functions of a module text; returns name → address of the C function.

    `exports` maps a function's name to its signature, for instance "int64(int64, int64)". Numbers
    in the text are of float32 if that is `single`. A text that depends on a user's program is not
    `fixed`, and not looked for among those compiled when the package was built.
    """
    text = Text(source, exports, single, fixed)
    key = text.key
    return _loaded.get(key) or uninterrupted(lambda: _once(key, lambda: _of_source(text, key)))


def compile_assembly(text: str, exports: Iterable[str]) -> dict[str, int]:
    """Compile functions of a text for LLVM; returns name → address.

    Names that the text defines and exports get the digest, for they are known everywhere.
    """
    digest = hashlib.sha256(f"assembly\n{text}".encode()).hexdigest()[:24]
    return _loaded.get(digest) or uninterrupted(
        lambda: _once(digest, lambda: _of_assembly(text, exports))
    )


def _once(digest: str, find: Callable[[], dict[str, int]]) -> dict[str, int]:
    """Addresses in a text, which one thread compiles; others that ask for it wait for them.

    A thread that loads code waits for none: others may wait for it.
    """
    if loading._is_owned():
        _loaded[digest] = find()
        return _loaded[digest]
    with _under_way.setdefault(digest, process.lock()):
        if digest not in _loaded:
            _loaded[digest] = find()
    _under_way.pop(digest, None)
    return _loaded[digest]


def _of_source(text: Text, key: str) -> dict[str, int]:
    return prebuilt.find(text, key, address_of, is_late) or _compile(text, key)


def _compile(text: Text, key: str) -> dict[str, int]:
    name, path = _kept(text.source, key, MAKER, repr((text.exports, text.single)))
    code = read(path)
    if code is None:
        with announced():
            code = code_of(text, name)
        keep(path, code)
    return _load_once(name, code, text.exports)


def code_of(text: Text, name: str) -> bytes:
    """Machine code of a text: the symbols that it calls, and an object file."""
    symbols = symbols_of(text.exports, name)
    wanted = {symbols[one]: (one, text.exports[one]) for one in text.exports}
    return machine_code(parsed(lowered(text.source, wanted, text.single), symbols.values()))


def _of_assembly(text: str, exports: Iterable[str]) -> dict[str, int]:
    name, path = _kept("", "assembly", "_by_llvm", text)
    code = read(path)
    if code is None:
        with announced():
            code = _by_llvm(text, exports, name)
        keep(path, code)
    return _load_once(name, code, exports)


def _load_once(name: str, code: bytes, exports: Iterable[str]) -> dict[str, int]:
    """Addresses in machine code; what another thread has loaded meanwhile is not loaded twice."""
    with loading:
        if name not in _loaded:
            symbols = symbols_of(exports, name)
            _loaded[name] = dict(zip(symbols, load(code, symbols.values()), strict=True))
        return _loaded[name]


def _by_llvm(text: str, exports: Iterable[str], name: str) -> bytes:
    for exported, symbol in symbols_of(exports, name).items():
        text = text.replace(f"@{exported}(", f"@{symbol}(")
    return assembled(text)


def functions(source: str, exports: dict[str, int], keep_lock: bool) -> dict:
    """Compile functions of words and make them callable from Python.

    `exports` maps a name to its number of int64 arguments; each returns an int64. With `keep_lock`
    the interpreter lock stays held during the call, otherwise other threads run meanwhile.
    """
    word = ctypes.c_int64
    prototype = ctypes.PYFUNCTYPE if keep_lock else ctypes.CFUNCTYPE
    signatures = {name: f"int64({', '.join(['int64'] * n)})" for name, n in exports.items()}
    address = compile_source(source, signatures)
    return {name: prototype(word, *[word] * n)(address[name]) for name, n in exports.items()}


def once(make):
    """Decorate a function without arguments: it runs for the first thread that asks, others wait.

    What others hold the address of must not be made twice.
    """
    made: list = []
    lock = process.lock()

    @functools.wraps(make)
    def get():
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return get


def once_for_each(make):
    """Decorate a function: with the same arguments it runs for the first thread that asks.

    So are objects made that are told by identity. `functools.cache` may make several at once.
    """
    made: dict[tuple, Any] = {}
    lock = process.lock()

    @functools.wraps(make)
    def get(*given):
        if given not in made:
            with lock:
                if given not in made:
                    made[given] = make(*given)
        return made[given]

    return get
