"""Hand arguments of `lmdeploy serve api_server` to LMDeploy's own parser, and keys to its
`PytorchEngineConfig`.

Reads a JSON list of argument lists from standard input, or of objects of keys; the last line of the
output is a JSON list of what was read.
"""

import json
import sys

import stand_ins

stand_ins.install("lmdeploy")
from lmdeploy.cli.cli import CLI  # noqa: E402
from lmdeploy.cli.serve import SubCliServe  # noqa: E402
from lmdeploy.messages import PytorchEngineConfig  # noqa: E402
from lmdeploy.pytorch.config import UnmaskingStrategy  # noqa: E402

NAMES = (
    "model_path",
    "backend",
    "dtype",
    "tp",
    "session_len",
    "max_batch_size",
    "max_prefill_token_num",
    "quant_policy",
    "dllm_block_length",
    "dllm_unmasking_strategy",
    "dllm_denoising_steps",
    "dllm_confidence_threshold",
)


def read(case):
    if isinstance(case, dict):
        config = PytorchEngineConfig(**case)
        UnmaskingStrategy.from_str(config.dllm_unmasking_strategy)
        return {
            name: getattr(config, name) for name in NAMES if name not in ("model_path", "backend")
        }
    arguments = CLI.parser.parse_args(case)
    return {name: getattr(arguments, name) for name in NAMES}


def main():
    SubCliServe.add_parsers()
    answers = []
    for case in json.load(sys.stdin):
        try:
            answers.append({"read": read(case)})
        except (Exception, SystemExit) as error:
            answers.append({"refused": f"{type(error).__name__}: {error}"})
    print("\n" + json.dumps(answers, default=str))


main()
