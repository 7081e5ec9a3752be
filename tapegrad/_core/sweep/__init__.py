"""The interpreter: compiled code that sweeps over rows, backwards and forwards."""
