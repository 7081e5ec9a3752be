"""Every function of tensors, as `tapegrad` has them at top level."""

from ._core.operations import PUBLIC
from ._core.tensor.registry import LATE

#: Names of functions whose modules are imported when they are first used.
LATER = [name for names in LATE.values() for name in names]
EARLY = {name: PUBLIC[name] for name in PUBLIC.early()}

__all__ = [*EARLY, *LATER]

globals().update(EARLY)


def __getattr__(name: str):
    if name in PUBLIC:
        return PUBLIC[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
