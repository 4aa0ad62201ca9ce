"""SGLang 0.5.23: blocks of a block-causal model by one threshold, over the cache of all that is
finished.
"""

from costmodel.engines.record.refining import EngineSetting, Refining, RuleForm

REFINING = Refining(
    name="sglang",
    releases=("0.5.23",),
    rules={
        "threshold": RuleForm(
            name="LowConfidence",
            thresholds={"confidence": "threshold"},
            remark="LowConfidence commits beyond its threshold, not at it",
        ),
        "static": RuleForm(
            name="LowConfidence",
            fixed={"tokens": 1},
            remark=(
                "one token a pass is LowConfidence at a threshold of 1, which no probability is"
                " beyond"
            ),
        ),
    },
    without={
        "entropy_bound": (
            "Gemma4Renoise bounds entropy, but draws unsure positions anew, which no masked model"
            " does"
        ),
    },
    caches={"dual": ""},
    cache_rule="computes a block alone, over the keys and values of all before it",
    stops=("end_token", "full"),
    stop_rule="",
    models=("llada2_moe", "sdar", "sdar_moe"),
    settings={
        "--model-path": EngineSetting(kind="text"),
        "--dllm-algorithm": EngineSetting(
            kind="text",
            choices=("LowConfidence", "JointThreshold", "JointThresholdInDel", "Gemma4Renoise"),
        ),
        "--dllm-algorithm-config": EngineSetting(kind="text"),
        "--max-running-requests": EngineSetting(kind="int", default=1),
    },
    keys={
        "LowConfidence": {
            "block_size": EngineSetting(kind="int"),  # of the checkpoint: 32 of LLaDA2, 4 of SDAR
            "threshold": EngineSetting(kind="float", default=0.95),
        },
        "JointThreshold": {
            "block_size": EngineSetting(kind="int"),
            "threshold": EngineSetting(kind="float", default=0.5),
            "edit_threshold": EngineSetting(kind="float", default=0),
            "max_post_edit_steps": EngineSetting(kind="int", default=16),
            "penalty_lambda": EngineSetting(kind="float", default=0),
            "vectorized_decoding": EngineSetting(kind="bool", default=False),
        },
    },
    parallel=("tensor", "expert", "nodes"),
    refused={"pipeline": "switches pipeline parallelism off for diffusion models"},
    remarks=(
        (
            "a block's keys and values are stored by one more pass over it when it is done; no pass"
            " over prompt and canvas renews them"
        ),
        "SGLang switches overlapped scheduling and mixed chunks off for diffusion models",
    ),
    source=(
        "sglang/srt/dllm/config.py, dllm/algorithm/*.py, arg_groups/dllm_hook.py and"
        " arg_groups/fields/exec_.py of the release listed, read from its wheel"
    ),
)
