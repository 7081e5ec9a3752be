"""Which rows some rows depend on, for Python; a part of its own, compiled when it is asked for."""

SOURCE = '''
from tapegrad.sweep.reached import mark_reached


def mark_dependence(frame):
    """Mark what the marked rows depend on."""
    mark_reached(frame)
    return 0
'''

EXPORTS = {"mark_dependence": 1}
