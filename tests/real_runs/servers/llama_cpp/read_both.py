"""Read arguments of `llama-server` with our table and with the engine's own parser, and compare all
parameters.

Takes the folder of the engine's reader as its argument and a JSON list of argument lists on
standard input; the last line of the output is a JSON list of the parameters that differ, by their
names, ours first.
"""

import json
import sys

import xllamacpp

sys.path.insert(0, sys.argv[1])
from read_llama_cpp import parameters_of

from real_runs.servers.llama_cpp.arguments import fill, read_arguments


def flattened(holder, prefix=""):
    found = {}
    for name in dir(holder):
        value = getattr(holder, name)
        if name.startswith("_") or callable(value):
            continue
        if type(value).__module__.startswith("xllamacpp") and not isinstance(value, int):
            found |= flattened(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def compared(arguments):
    ours = xllamacpp.CommonParams()
    fill(ours, read_arguments(arguments))
    mine, theirs = flattened(ours), flattened(parameters_of(arguments))
    return {
        name: [repr(mine[name]), repr(theirs[name])] for name in mine if mine[name] != theirs[name]
    }


print("\n" + json.dumps([compared(arguments) for arguments in json.load(sys.stdin)]))
