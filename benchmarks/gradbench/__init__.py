"""The evaluations of GradBench, by tapegrad: a tool that speaks its protocol, and a table of times.

GradBench (https://github.com/gradbench/gradbench) compares systems of automatic differentiation.
One module here is one of its evaluations: the function as a user of NumPy writes it, and
`FUNCTIONS`, what the evaluation asks for. `run.py` is the tool; `python -m benchmarks.gradbench`
prints the times beside those of PyTorch, in one process.
"""
