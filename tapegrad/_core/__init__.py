"""Tape, sweep and tensors: the recording of operations, and the reverse sweep."""

import time
from pathlib import Path

#: The folder of tapegrad: files in it are not the user's code.
PACKAGE = Path(__file__).resolve().parent.parent
#: When it was imported, in nanoseconds.
IMPORTED = time.time_ns()
