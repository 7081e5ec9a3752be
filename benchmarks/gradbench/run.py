"""The tool: GradBench's messages on standard input, one JSON a line, and a response to each.

    python -m benchmarks.gradbench.run

As the tool of a run, from a checkout of GradBench, with the root of this repository in PYTHONPATH:

    ./gradbench run --eval './gradbench repo eval lse' --tool 'python -m benchmarks.gradbench.run'
"""

import importlib
import json
import sys
import traceback

from benchmarks.gradbench.inputs import EVALUATIONS

MODULES = ("hello", *EVALUATIONS)


def module_of(name):
    """Return the module of an evaluation."""
    if name not in MODULES:
        raise ValueError(f"no evaluation {name!r}; known: {', '.join(MODULES)}")
    return importlib.import_module(f"benchmarks.gradbench.{name}")


def evaluated(message):
    """Return the response to a message that asks for a value."""
    functions = module_of(message["module"]).FUNCTIONS
    if message["function"] not in functions:
        raise ValueError(f"no function {message['function']!r}; known: {', '.join(functions)}")
    return functions[message["function"]].evaluate(message["input"])


def response(message):
    """Return the response to a message, without its id; what fails is said in it."""
    try:
        if message["kind"] == "start":
            return {"tool": "tapegrad"}
        if message["kind"] == "define":
            module_of(message["module"])
            return {"success": True}
        if message["kind"] == "evaluate":
            return evaluated(message)
    except Exception as error:
        return {"success": False, "error": "".join(traceback.format_exception(error))}
    return {}


def main(lines=sys.stdin, out=sys.stdout):
    """Answer every line."""
    for line in lines:
        message = json.loads(line)
        print(json.dumps({"id": message["id"], **response(message)}), file=out, flush=True)


if __name__ == "__main__":
    main()
