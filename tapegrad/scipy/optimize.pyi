from typing import Any

from scipy.optimize import *

def __getattr__(name: str) -> Any: ...
