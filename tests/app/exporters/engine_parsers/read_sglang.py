"""Hand arguments of `sglang.launch_server` to SGLang's own `ServerArgs`, and resolve what they say
of speculation.

Reads a JSON list of argument lists from standard input; the last line of the output is a JSON list
of what was read. The model is a folder with a config alone.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import stand_ins
import yaml

stand_ins.install("sglang")
from sglang.srt.arg_groups.overrides import resolved_view  # noqa: E402
from sglang.srt.arg_groups.speculative_hook import handle_speculative_decoding  # noqa: E402
from sglang.srt.dllm.algorithm import get_algorithm  # noqa: E402
from sglang.srt.dllm.config import DllmConfig  # noqa: E402
from sglang.srt.environ import envs  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams  # noqa: E402

NAMES = (
    "model_path",
    "tp_size",
    "attn_dp_size",
    "pp_size",
    "ep_size",
    "nnodes",
    "dist_init_addr",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "context_length",
    "max_running_requests",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
)
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
    answer |= {
        "length": envs.SGLANG_SIMULATE_ACC_LEN.get(),
        "way": envs.SGLANG_SIMULATE_ACC_METHOD.get(),
    }
    answer["draft_load_format"] = settled.speculative_draft_load_format
    if settled.speculative_adaptive:
        slots = AdaptiveSpeculativeParams(
            settled.speculative_num_steps, settled.speculative_adaptive_config
        )
        slots.set_cuda_graph_bs(sorted(arguments.cuda_graph_bs_decode))
        largest = settled.max_running_requests
        answer["lookup"] = [
            0,
            *(slots.get_steps_for_batch(batch) for batch in range(1, largest + 1)),
        ]
    if arguments.dllm_algorithm is not None:
        answer["masked"] = read_masked(arguments.dllm_algorithm, arguments.dllm_algorithm_config)
    return answer


def read_masked(name, path):
    """What SGLang's own algorithm makes of the keys of its file."""
    keys = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    algorithm = get_algorithm(
        DllmConfig(name, keys, keys["block_size"], mask_id=0, max_running_requests=1)
    )
    return {
        "algorithm": type(algorithm).__name__,
        "threshold": algorithm.threshold,
        "block": algorithm.block_size,
    }


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
