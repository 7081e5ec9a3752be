from typing import Any

from scipy.spatial import *

def __getattr__(name: str) -> Any: ...
