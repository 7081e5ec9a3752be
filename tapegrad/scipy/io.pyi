from typing import Any

from scipy.io import *

def __getattr__(name: str) -> Any: ...
