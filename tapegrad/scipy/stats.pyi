from typing import Any

from scipy.stats import *

def __getattr__(name: str) -> Any: ...
