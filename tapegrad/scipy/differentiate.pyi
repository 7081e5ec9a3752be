from typing import Any

from scipy.differentiate import *

def __getattr__(name: str) -> Any: ...
