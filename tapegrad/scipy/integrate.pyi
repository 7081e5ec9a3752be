from typing import Any

from scipy.integrate import *

def __getattr__(name: str) -> Any: ...
