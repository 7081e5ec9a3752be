from typing import Any

from scipy.linalg import *

def __getattr__(name: str) -> Any: ...
