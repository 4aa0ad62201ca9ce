"""Hand arguments of `vllm serve` to vLLM's own parser, and its speculative config to
`SpeculativeConfig`.

Reads a JSON list of argument lists from standard input; the last line of the output is a JSON list
of what was read. Checkpoints are stand-ins; everything that is checked without one is checked.
"""

import json
import sys
from types import SimpleNamespace

import stand_ins

stand_ins.install("vllm")
import torch  # noqa: E402

torch.library.Library.impl = lambda *values, **named: None
torch.library.Library._register_fake = lambda *values, **named: None
import vllm.platforms  # noqa: E402
from vllm.config import speculative  # noqa: E402
from vllm.platforms.interface import Platform  # noqa: E402


class Processor(Platform):
    device_type = device_name = "cpu"
    dispatch_key = "CPU"


vllm.platforms._current_platform = Processor()
from transformers import LlamaConfig  # noqa: E402
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402
from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup  # noqa: E402

LARGEST = 1024


class Checkpoint:
    """A model config that answers what is asked before weights are looked at."""

    def __init__(self, model, **named):
        self.__dict__.update(named)
        self.model, self.max_model_len, self.is_moe = model, 4096, False
        self.architectures = ["LlamaForCausalLM"]
        self.hf_config = self.hf_text_config = LlamaConfig(architectures=self.architectures)
        if named.get("runner") == "draft" and model == "the/target":
            self.hf_config.model_type = "deepseek_mtp"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

    def using_transformers_backend(self):
        return False

    def get_vocab_size(self):
        return 32_000

    def verify_with_parallel_config(self, parallel):
        pass


speculative.ModelConfig = Checkpoint
speculative.has_arctic_inference = lambda: True
speculative.SpeculativeConfig.update_arch_ = lambda self: None
speculative.SpeculativeConfig.create_draft_parallel_config = staticmethod(
    lambda target, *rest, **named: target
)


def parser():
    found = FlexibleArgumentParser(exit_on_error=False)
    found.add_argument("model_tag", nargs="?")
    found.add_argument("--headless", action="store_true")
    return AsyncEngineArgs.add_cli_args(found)


def read(arguments, parse):
    known = parse.parse_args(arguments[1:])
    answer = {
        name: getattr(known, name)
        for name in (
            "model_tag",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            "nnodes",
            "enable_expert_parallel",
            "quantization",
            "dtype",
            "max_model_len",
            "max_num_seqs",
        )
    } | {"kv_cache_dtype": known.kv_cache_dtype}
    if known.speculative_config is not None:
        spread = SimpleNamespace(
            tensor_parallel_size=known.tensor_parallel_size, pipeline_parallel_size=1
        )
        config = speculative.SpeculativeConfig(
            **known.speculative_config,
            target_model_config=Checkpoint("the/target"),
            target_parallel_config=spread,
        )
        rates = config.synthetic_acceptance_rates
        answer |= {"method": config.method, "k": config.num_speculative_tokens, "rates": rates}
        schedule = config.num_speculative_tokens_per_batch_size
        if schedule is not None:
            answer["lookup"] = build_dynamic_sd_schedule_lookup(
                schedule, LARGEST, config.num_speculative_tokens
            )
    return answer


def main():
    answers, parse = [], parser()
    for arguments in json.load(sys.stdin):
        try:
            answers.append({"read": read(arguments, parse)})
        except (Exception, SystemExit) as error:
            answers.append({"refused": f"{type(error).__name__}: {error}"})
    print("\n" + json.dumps(answers, default=str))


main()
