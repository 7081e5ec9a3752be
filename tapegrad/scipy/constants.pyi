from typing import Any

from scipy.constants import *

def __getattr__(name: str) -> Any: ...
