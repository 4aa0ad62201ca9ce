"""Start llama.cpp's server inside this process as an exported script would, and let it write a few
tokens.

Reads a JSON list of argument lists from standard input; the last line of the output is a JSON list
of the timings that the server reports.
"""

import json
import sys

import xllamacpp
from read_llama_cpp import parameters_of

PROMPT = {"prompt": "The capital of France is the city of", "n_predict": 24, "temperature": 0}


def run(arguments):
    parameters = parameters_of([*arguments, "--threads", "1", "--no-warmup"])
    parameters.port = 0
    return xllamacpp.Server(parameters).handle_completions(PROMPT)["timings"]


print("\n" + json.dumps([{"read": run(arguments)} for arguments in json.load(sys.stdin)]))
