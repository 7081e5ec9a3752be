"""Dispatch of calls to programs: signatures, variants, guards, native code."""
