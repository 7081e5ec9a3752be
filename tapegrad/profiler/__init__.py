"""Floor 7: where time and memory go, forward and reverse, and where the tape grew for nothing."""

from .advice import Advice
from .events import EventList, FunctionEvent, FunctionEventAvg
from .profile import profile, record_function

__all__ = [
    "Advice",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "profile",
    "record_function",
]
