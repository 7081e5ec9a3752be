"""Where time and memory go, forward and reverse, and where the tape grew for nothing."""

from ._advice import Advice
from ._events import EventList, FunctionEvent, FunctionEventAvg
from ._profile import profile, record_function

__all__ = [
    "Advice",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "profile",
    "record_function",
]
