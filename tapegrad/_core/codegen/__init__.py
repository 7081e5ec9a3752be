"""How compiled code is made. The only place that knows Numba's flags."""
