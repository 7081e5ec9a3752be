"""Dependences between rows, for Python; a separate part, compiled on first use."""

SOURCE = '''
from tapegrad._core.sweep.marking import mark_reached


def mark_dependence(frame):
    """Mark what the marked rows depend on; returns the oldest chunk."""
    return mark_reached(frame)
'''

EXPORTS = {"mark_dependence": 1}
