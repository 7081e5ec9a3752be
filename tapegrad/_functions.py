"""Every function of tensors, as `tapegrad` has them at top level."""

from ._core.operations import PUBLIC

__all__ = list(PUBLIC)

globals().update(PUBLIC)
