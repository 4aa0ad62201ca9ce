"""Hand arguments of `llama-server` to llama.cpp's own parser, inside the library that xllamacpp
ships.

Reads a JSON list of argument lists from standard input; the last line of the output is a JSON list
of what was read.
"""

import ctypes
import json
import sys

import xllamacpp
from xllamacpp import xllamacpp as library

SERVER = 12  # of `enum llama_example`
PARSE = "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"
HEADER_BYTES = 16  # of a Python object, before the parameters that it holds


def parameters_of(arguments):
    """The server's parameters, as its own parser fills them in."""
    parse = getattr(ctypes.CDLL(library.__file__), PARSE)
    parse.restype = ctypes.c_bool
    words = ["llama-server", *arguments]
    parameters = xllamacpp.CommonParams()
    pointers = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    if not parse(
        len(words), pointers, ctypes.c_void_p(id(parameters) + HEADER_BYTES), SERVER, None
    ):
        raise ValueError("the parser refuses it; its reason stands above")
    return parameters


def read(arguments):
    parameters = parameters_of(arguments)
    chosen = parameters.speculative
    types = [each.name.removeprefix("COMMON_SPECULATIVE_TYPE_") for each in chosen.types]
    return {
        "model": parameters.model.path,
        "draft": chosen.draft.mparams.path,
        "n_ctx": parameters.n_ctx,
        "n_parallel": parameters.n_parallel,
        "types": [name for name in types if name != "NONE"],
        "n_max": chosen.draft.n_max,
        "n_min": chosen.draft.n_min,
        "p_min": chosen.draft.p_min,
        "rates": list(chosen.synth_rates),
        "cache": [int(parameters.cache_type_k), int(parameters.cache_type_v)],
        "lookups": {
            name: [getattr(chosen, name).size_n, getattr(chosen, name).size_m]
            for name in ("ngram_simple", "ngram_map_k", "ngram_map_k4v")
        },
        "mod": [chosen.ngram_mod.n_match, chosen.ngram_mod.n_max],
    }


def main():
    answers = []
    for arguments in json.load(sys.stdin):
        try:
            answers.append({"read": read(arguments)})
        except Exception as error:
            answers.append({"refused": f"{type(error).__name__}: {error}"})
    print("\n" + json.dumps(answers, default=str))


if __name__ == "__main__":
    main()
