from typing import Any

from scipy.cluster import *

def __getattr__(name: str) -> Any: ...
