"""Machine code for platforms that the tests do not run on: it is made, and not run."""

import json
import os
import struct
import subprocess
import sys

import pytest

from tapegrad._core import PACKAGE

#: What makes code for another platform: LLVM is told its name, and not asked for a processor.
SCRIPT = """
import json, sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.get_process_triple = lambda: sys.argv[1]
from tapegrad._core.codegen import factory, machine_code
from tapegrad._core.codegen.prebuilt import Text
machine_code._placing = lambda: {"reloc": "pic", "codemodel": "small"}
for number, fields in enumerate(json.load(open(sys.argv[2]))):
    text = Text(*fields)
    symbols, _, code = factory.code_of(text, str(number)).partition(b"\\n")
    print(symbols.decode(), code[:20].hex(), len(code), sep=";")
"""
#: By the name of a platform: the beginning of its object files, and where it is.
KINDS = {
    "aarch64-unknown-linux-gnu": (b"\x7fELF\x02\x01", struct.pack("<H", 183), 18),
    "arm64-apple-macosx11.0.0": (b"\xcf\xfa\xed\xfe", struct.pack("<I", 0x0100000C), 4),
    "x86_64-pc-windows-msvc": (b"", struct.pack("<H", 0x8664), 0),
}


def _run(*words, **environment):
    given = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    made = subprocess.run(
        [sys.executable, *words], env=given, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """What the first gradients, compiled calls and Hessians ask for."""
    path = tmp_path_factory.mktemp("texts") / "texts.json"
    _run("-m", "tapegrad._build", "--collect", "--texts", str(path))
    return path


#: Functions of Python's that take any number of arguments: their callers differ by platform.
VARIADIC = {"PyObject_CallFunctionObjArgs", "PyErr_Format", "PyTuple_Pack", "Py_BuildValue"}


@pytest.mark.parametrize("platform", KINDS)
def test_code_is_made_for_it(platform, texts, tmp_path):
    """Of a third of the texts, another one for each platform."""
    number = [*KINDS].index(platform)
    share = json.loads(texts.read_text())[number :: len(KINDS)]
    path = tmp_path / "share.json"
    path.write_text(json.dumps(share))
    given = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "TAPEGRAD_WITHOUT": "libmvec"}
    lines = _run("-c", SCRIPT, platform, str(path), **given)
    assert len(lines) == len(share) > 20
    magic, processor, at = KINDS[platform]
    for line in lines:
        called, head, size = line.split(";")
        content = bytes.fromhex(head)
        assert content.startswith(magic) and content[at : at + len(processor)] == processor
        assert int(size) > 200
        assert not [one for one in called.split() if one.startswith("_ZGV") or one in VARIADIC]
