"""Tape, sweep and tensors: the recording of operations, and the reverse sweep."""

from pathlib import Path

#: The folder of tapegrad: files in it are not the user's code.
PACKAGE = Path(__file__).resolve().parent.parent
