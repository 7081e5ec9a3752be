from typing import Any

from scipy.special import *

def __getattr__(name: str) -> Any: ...
