"""LMDeploy 0.18: blocks of SDAR by a threshold or an even share, over the cache of all that is
finished.
"""

from costmodel.engines.record.refining import EngineSetting, Refining, RuleForm

_STRATEGIES = ("low_confidence_dynamic", "low_confidence_static", "sequential")

REFINING = Refining(
    name="lmdeploy",
    releases=("0.18.0",),
    rules={
        "threshold": RuleForm(
            name="low_confidence_dynamic", thresholds={"confidence": "--dllm-confidence-threshold"}
        ),
        "static": RuleForm(
            name="low_confidence_static", thresholds={"tokens": "--dllm-denoising-steps"}
        ),
    },
    without={
        "in_order": (
            "its strategy `sequential` commits an even share from the left, however sure the"
            " model is"
        )
    },
    caches={"dual": ""},
    cache_rule="computes a block alone, over the keys and values of all before it",
    stops=("end_token", "full"),
    stop_rule="",
    models=("sdar", "sdar_moe"),
    settings={
        "--backend": EngineSetting(
            kind="text", default="turbomind", choices=("pytorch", "turbomind")
        ),
        "--dtype": EngineSetting(
            kind="text", default="auto", choices=("auto", "float16", "bfloat16")
        ),
        "--tp": EngineSetting(kind="int", default=1),
        "--session-len": EngineSetting(kind="int"),
        "--max-batch-size": EngineSetting(kind="int"),
        "--max-prefill-token-num": EngineSetting(kind="int", default=8192),
        "--quant-policy": EngineSetting(kind="int", default=0),
        "--dllm-block-length": EngineSetting(kind="int"),  # of the checkpoint, else 4
        "--dllm-unmasking-strategy": EngineSetting(
            kind="text", default="low_confidence_dynamic", choices=_STRATEGIES
        ),
        "--dllm-denoising-steps": EngineSetting(kind="int"),  # the block's length
        "--dllm-confidence-threshold": EngineSetting(kind="float", default=0.85),
    },
    keys={
        "PytorchEngineConfig": {
            "dtype": EngineSetting(
                kind="text", default="auto", choices=("auto", "float16", "bfloat16")
            ),
            "tp": EngineSetting(kind="int", default=1),
            "session_len": EngineSetting(kind="int"),
            "max_batch_size": EngineSetting(kind="int"),
            "max_prefill_token_num": EngineSetting(kind="int", default=8192),
            "quant_policy": EngineSetting(kind="int", default=0),
            "dllm_block_length": EngineSetting(kind="int"),
            "dllm_unmasking_strategy": EngineSetting(
                kind="text", default="low_confidence_dynamic", choices=_STRATEGIES
            ),
            "dllm_denoising_steps": EngineSetting(kind="int"),
            "dllm_confidence_threshold": EngineSetting(kind="float", default=0.85),
        }
    },
    parallel=("tensor",),
    remarks=(
        (
            "a block's keys and values are stored by one more pass over it when it is done; no pass"
            " over prompt and canvas renews them"
        ),
    ),
    source=(
        "lmdeploy/cli/utils.py, cli/serve.py, messages.py, pytorch/config.py,"
        " pytorch/engine/config_builder.py and pytorch/strategies/dllm/*.py of the release listed,"
        " read from its wheel"
    ),
)
