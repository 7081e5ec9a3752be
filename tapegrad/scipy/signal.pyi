from typing import Any

from scipy.signal import *

def __getattr__(name: str) -> Any: ...
