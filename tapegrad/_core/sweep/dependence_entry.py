"""Which rows some rows depend on, for Python; a part of its own, compiled when it is asked for."""

SOURCE = '''
from tapegrad._core.sweep.dependence_sweep import mark_reached


def mark_dependence(frame):
    """Mark what the marked rows depend on; returns the oldest chunk."""
    return mark_reached(frame)
'''

EXPORTS = {"mark_dependence": 1}
