"""Fast-dLLM's evaluation of LLaDA: blocks by a threshold, a factor or an even share, with all three
caches.
"""

from costmodel.engines.record.refining import EngineSetting, Refining, RuleForm

REFINING = Refining(
    name="fast-dllm",
    releases=("24cc59e", "9980433"),
    rules={
        "threshold": RuleForm(thresholds={"confidence": "threshold"}),
        "factor": RuleForm(
            thresholds={"factor": "factor"},
            first="9980433",
            remark="its factor rule commits the last open position too where it alone fails",
        ),
        "static": RuleForm(
            thresholds={"tokens": "steps"},
            remark=(
                "the tokens of a block spread evenly over its passes, more of them in the first"
                " ones"
            ),
        ),
        "random": RuleForm(
            name="random",
            thresholds={"tokens": "steps"},
            fixed={"seed": 0},
            remark="the random order is drawn anew by every run",
        ),
    },
    without={"entropy": "commits by entropy in its copies, as dParallel's, alone"},
    caches={"none": "", "prefix": "use_cache", "dual": "dual_cache"},
    cache_rule="",
    stops=("full",),
    stop_rule="fills the whole canvas and cuts the text afterwards",
    models=("llada",),
    settings={
        "--model": EngineSetting(kind="text", choices=("llada_dist",)),
        "--tasks": EngineSetting(kind="text"),
        "--model_args": EngineSetting(kind="text"),
    },
    keys={
        "model_args": {
            "model_path": EngineSetting(kind="text", default=""),
            "gen_length": EngineSetting(kind="int", default=1024),
            "steps": EngineSetting(kind="int", default=1024),
            "block_length": EngineSetting(kind="int", default=1024),
            "remasking": EngineSetting(
                kind="text", default="low_confidence", choices=("low_confidence", "random")
            ),
            "threshold": EngineSetting(kind="float"),
            "factor": EngineSetting(kind="float", first="9980433"),
            "use_cache": EngineSetting(kind="bool", default=False),
            "dual_cache": EngineSetting(kind="bool", default=False),
            "batch_size": EngineSetting(kind="int", default=32, first="9980433"),
            "show_speed": EngineSetting(kind="bool", default=False),
        }
    },
    parallel=(),
    remarks=("requests of a batch wait for each other at the end of every block",),
    source=(
        "llada/eval_llada.py, llada/generate.py and llada/eval_gsm8k.sh of NVlabs/Fast-dLLM at the"
        " commits listed"
    ),
)
