"""Floor 5: recordings as programs: converted, optimised, compiled, replayed."""

from .recording import record

__all__ = ["record"]
