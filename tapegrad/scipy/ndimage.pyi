from typing import Any

from scipy.ndimage import *

def __getattr__(name: str) -> Any: ...
