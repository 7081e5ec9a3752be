"""Floor 5: recordings as programs: converted, optimised, compiled, replayed."""

from .record import record

__all__ = ["record"]
