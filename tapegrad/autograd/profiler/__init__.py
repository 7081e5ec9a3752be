"""Time and memory, forward and reverse, and lines where the tape grew without need."""

from ._events import Advice, EventList, FunctionEvent, FunctionEventAvg
from ._profile import profile, record_function

__all__ = [
    "Advice",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "profile",
    "record_function",
]
