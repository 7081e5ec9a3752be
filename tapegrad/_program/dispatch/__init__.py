"""Which program answers a call: signatures, variants, guards, native code."""
