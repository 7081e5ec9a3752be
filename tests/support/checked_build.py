"""Tests under a build of compiled code whose every load and store is checked.

`python tests/support/checked_build.py [arguments of pytest]` runs them. It needs gcc with its
library of AddressSanitizer, which then manages all memory of the process: between blocks, and where
a block was freed, are bytes that belong to nobody. The text of each module calls a check before
each load and store, after LLVM has optimised it (checked_text.py); the check asks AddressSanitizer
whose the bytes are (checked_access.c). What is found fails the test during which it happens, and is
told with the block and who made it.

What this cannot see: places inside a block that has several users. So blocks that are cut from
larger ones are cut to size here, and what is kept to be used again is made anew.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from source_rules import ROOT

HERE = Path(__file__).resolve().parent
#: What the machine code of this build is made with.
PARTS = ("text.py", "memory.py", "plugin.py", "access.c")
#: For AddressSanitizer. New memory is full of bits that are no number, so that what is read before
#: it is written is seen in results. Other options leave alone what tests do on purpose.
OPTIONS = {
    "halt_on_error": 0,
    "suppress_equal_pcs": 0,
    "redzone": 128,
    "max_redzone": 2048,
    "max_malloc_fill_size": (1 << 31) - 1,
    "malloc_fill_byte": 255,
    "detect_leaks": 0,
    "handle_segv": 0,
    "handle_sigbus": 0,
    "handle_sigfpe": 0,
    "handle_abort": 0,
    "allocator_may_return_null": 1,
    "quarantine_size_mb": 64,
    "detect_stack_use_after_return": 0,
}


def fail(message):
    sys.exit(f"checked_build: {message}")


def gcc_library(name):
    """Where gcc has a library."""
    if shutil.which("gcc") is None:
        fail("gcc is not installed; it makes the checks and brings AddressSanitizer's library")
    given = ["gcc", f"-print-file-name={name}"]
    found = subprocess.run(given, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(found):
        fail(f"gcc has no {name}; install its package, on Debian libgcc-dev of gcc's version")
    return found


def private_cache():
    """A folder for machine code of this build alone."""
    parts = [(HERE / f"checked_{part}").read_bytes() for part in PARTS]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "tapegrad-checked" / digest[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(cache, log):
    first = [gcc_library(name) for name in ("libasan.so", "libstdc++.so.6")]
    library = cache / "checked_access.so"
    if not library.exists():
        made = f"{library}.{os.getpid()}"
        source = str(HERE / "checked_access.c")
        subprocess.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", source, "-o", made], check=True)
        os.replace(made, library)
    options = {**OPTIONS, "log_path": log}
    path = [str(HERE), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        "LD_PRELOAD": ":".join(first),
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "NUMBA_CACHE_DIR": str(cache),
        "CHECKED_ACCESS": str(library),
        "CHECKED_LOG": f"{log}.crashed",
        "OPENBLAS_NUM_THREADS": "1",
    }


def main(arguments):
    """Run pytest; fails too where a process has reported something that no test was told of."""
    cache = private_cache()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "report"
        words = [sys.executable, "-m", "pytest", "-p", "checked_plugin", *arguments]
        status = subprocess.run(words, env=environment(cache, log), cwd=ROOT).returncode
        for path in sorted(Path(folder).iterdir()):
            print(f"== {path.name}", path.read_text(errors="replace"), sep="\n")
            status = status or 1
    print(f"checked build: {'failed' if status else 'nothing found'}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
