"""Hand arguments of `sglang.launch_server` to SGLang's own `ServerArgs`, and resolve what they say of speculation.

Reads a JSON list of argument lists from standard input; the last line of the output is a JSON list of what was read.
The model is a folder with a config alone.
"""

import argparse
import json
import os
import sys

import stand_ins

stand_ins.install("sglang")
from sglang.srt.arg_groups.overrides import resolved_view  # noqa: E402
from sglang.srt.arg_groups.speculative_hook import handle_speculative_decoding  # noqa: E402
from sglang.srt.environ import envs  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams  # noqa: E402

NAMES = ("model_path", "tp_size", "attn_dp_size", "pp_size", "ep_size", "nnodes", "dist_init_addr", "dtype",
         "quantization", "kv_cache_dtype", "context_length", "max_running_requests", "speculative_algorithm",
         "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")  # fmt: skip
# what the pipeline settles from the device before it comes to speculation
SETTLED = ("--device", "cuda", "--attention-backend", "fa3", "--page-size", "1")


def read(arguments, parse):
    variables = dict(word.split("=", 1) for word in arguments if word.startswith("SGLANG_"))
    words = [word for word in arguments if not word.startswith("SGLANG_")]
    for name in ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    arguments = ServerArgs.from_cli_args(parse.parse_args([*words, *SETTLED]))
    if arguments.speculative_algorithm is not None:
        handle_speculative_decoding(arguments)
    settled = resolved_view(arguments)
    answer = {name: getattr(settled, name) for name in NAMES}
    answer |= {"length": envs.SGLANG_SIMULATE_ACC_LEN.get(), "way": envs.SGLANG_SIMULATE_ACC_METHOD.get()}
    answer["draft_load_format"] = settled.speculative_draft_load_format
    if settled.speculative_adaptive:
        slots = AdaptiveSpeculativeParams(settled.speculative_num_steps, settled.speculative_adaptive_config)
        slots.set_cuda_graph_bs(sorted(arguments.cuda_graph_bs_decode))
        largest = settled.max_running_requests
        answer["lookup"] = [0, *(slots.get_steps_for_batch(batch) for batch in range(1, largest + 1))]
    return answer


def main():
    parse = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parse)
    answers = []
    for arguments in json.load(sys.stdin):
        try:
            answers.append({"read": read(arguments, parse)})
        except (Exception, SystemExit) as error:
            answers.append({"refused": f"{type(error).__name__}: {error}"})
    print("\n" + json.dumps(answers, default=str))


main()
