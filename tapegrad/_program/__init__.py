"""Recordings as programs: converted, optimised, compiled, replayed."""

from .record import record

__all__ = ["record"]
