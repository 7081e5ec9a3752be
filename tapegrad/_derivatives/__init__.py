"""Derivatives that are recorded themselves, and forward mode."""
