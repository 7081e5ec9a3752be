from typing import Any

from scipy.sparse import *

def __getattr__(name: str) -> Any: ...
