"""dInfer: blocks of LLaDA and LLaDA2 by a threshold, with credit or without, in a process of
Python's.
"""

from costmodel.engines.record.refining import EngineSetting, Refining, RuleForm

TOKEN_IDS = {"llada": (126_336, 126_081), "llada2_moe": (156_895, 156_892)}
"""The mask's id and the end of text, by `model_type`: defaults of its decoders, and of LLaDA's
code."""

REFINING = Refining(
    name="dinfer",
    releases=("fce4e32", "b813f32"),
    rules={
        "threshold": RuleForm(name="threshold", thresholds={"confidence": "threshold"}),
        "credit": RuleForm(
            name="threshold",
            thresholds={"confidence": "threshold"},
            fixed={"weight": 0.7, "decay": 0.8, "power": 0.2},
            remark="every entry of the vocabulary has a credit of its own, not the likeliest alone",
        ),
    },
    without={},
    caches={"none": "", "prefix": "prefix", "dual": "dual"},
    cache_rule="",
    stops=("end_token", "full"),
    stop_rule="",
    models=("llada", "llada2_moe"),
    settings={
        "model": EngineSetting(kind="text"),
        "model_type": EngineSetting(kind="text", default="llada2"),
        "num_gpus": EngineSetting(kind="int"),
        "dp_size": EngineSetting(kind="int", default=1),
        "tpep_size": EngineSetting(kind="int"),
        "backend": EngineSetting(kind="text", default="sglang", choices=("sglang", "vllm")),
    },
    keys={
        "SamplingParams": {
            "threshold": EngineSetting(kind="float", default=0.9),
            "low_threshold": EngineSetting(kind="float", default=0.6),
            "cache": EngineSetting(kind="text", default="dual", choices=("", "prefix", "dual")),
            "temperature": EngineSetting(kind="float", default=0.0),
            "early_stop": EngineSetting(kind="bool", default=True),
            "cont_weight": EngineSetting(kind="float", default=0.3),
            "prefix_look": EngineSetting(kind="int", default=16),
            "after_look": EngineSetting(kind="int", default=16),
            "warmup_steps": EngineSetting(kind="int", default=4),
            "mask_id": EngineSetting(kind="int", default=156895),
            "eos_id": EngineSetting(kind="int", default=156892),
            "parallel_decoding": EngineSetting(
                kind="text", default="threshold", choices=("threshold", "hierarchy")
            ),
            "use_credit": EngineSetting(kind="bool", default=False),
            "use_bd": EngineSetting(kind="bool", default=True),
            "max_length": EngineSetting(kind="int", default=4096),
            "mini_batch_size": EngineSetting(kind="int", default=1, first="b813f32"),
        },
        "generate": {
            "gen_length": EngineSetting(kind="int", default=128),
            "block_length": EngineSetting(kind="int", default=128),
        },
    },
    parallel=("tensor", "data"),
    source=(
        "python/dinfer/decoding/serving.py, parallel_strategy.py, generate_uniform.py and utils.py"
        " of inclusionAI/dInfer at the commits listed"
    ),
)
