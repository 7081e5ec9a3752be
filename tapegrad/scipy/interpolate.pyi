from typing import Any

from scipy.interpolate import *

def __getattr__(name: str) -> Any: ...
