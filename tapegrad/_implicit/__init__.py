"""Results that satisfy equations: derivatives by the implicit function theorem."""
