from typing import Any

from scipy.fft import *

def __getattr__(name: str) -> Any: ...
