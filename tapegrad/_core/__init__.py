"""Tape, sweep and tensors: what records operations, and what runs back over them."""

from pathlib import Path

#: The folder of tapegrad: files in it are not the user's code.
PACKAGE = Path(__file__).resolve().parent.parent
