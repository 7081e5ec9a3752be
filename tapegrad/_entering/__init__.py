"""Functions of users run, in transforms, by code that calls stand-ins for NumPy and others."""
