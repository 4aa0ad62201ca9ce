"""Which settings do the public scripts of InferenceX and the templates of NVIDIA's generator hold,
day by day?

One entry for everything that the scripts tell apart, with the script it was read from. Leaves out
what no script sets.
"""

from functools import partial

from simulator.closed_loop.launch_settings import (
    RANGE_LENGTHS,
    BatchWait,
    LaunchName,
    LaunchSettings,
    PromptLimits,
)

_H100, _BLACKWELL = ("h100",), ("b200", "b300", "gb200", "gb300")
_LLAMA, _GPT_OSS, _DEEPSEEK = ("llama-3.1-70b", "llama-3.3-70b"), ("gpt-oss",), ("deepseek",)
_QWEN, _GLM, _KIMI, _MINIMAX = ("qwen3.5",), ("glm-5",), ("kimi",), ("minimax",)
_SHORT, _WRITING, _READING = RANGE_LENGTHS
_SELDOM = ((1, 10), (16, 30))
_MANY_PROMPTS = PromptLimits(token_budget=262_144, max_requests=128)
_inferencex = partial(LaunchSettings, scripts="inferencex")
_vllm = partial(_inferencex, engine="vllm", overlapped_scheduling=True)
_trtllm = partial(_inferencex, engine="tensorrt-llm")
_sglang = partial(_inferencex, engine="sglang")
_atom = partial(_inferencex, engine="atom")
# all of them: attention_dp_config with enable_balance, timeout_iters 60 and batching_wait_iters 0;
# dsr1_fp8_h200_trt_mtp_slurm.sh and dsr1_fp4_b200_trt_mtp_slurm.sh, 2025-12: MTP=1 where attention
# is copied, else 3
_sized = partial(
    _trtllm,
    models=_DEEPSEEK,
    prompts=1,
    beyond=64,
    beyond_users=True,
    cache="fp8",
    rank_wait=60,
    drafts=(3, 1),
)
_generator = partial(LaunchSettings, scripts="aiconfigurator", prompts=1, beyond=1500)

SETTINGS: tuple[LaunchSettings, ...] = (
    _vllm(
        token_budget=8192,
        source=(
            "benchmarks/gptoss_fp4_h100_docker.sh, 2025-09-23: max-num-batched-tokens 8192,"
            " async-scheduling"
        ),
    ),
    _vllm(
        models=_GPT_OSS,
        devices=_H100,
        token_budget=8192,
        source="benchmarks/gptoss_fp4_h100_docker.sh, 2025-09-23",
    ),
    _vllm(
        models=_GPT_OSS,
        devices=_H100,
        since="2025-11-21",
        token_budget=8192,
        sends=512,
        source=(
            "benchmarks/gptoss_fp4_h100_docker.sh, 2025-11-21: max-num-seqs CONC, but"
            " max-concurrency 512"
        ),
    ),
    _vllm(
        models=_GPT_OSS,
        devices=_H100,
        since="2025-12-09",
        token_budget=8192,
        source="benchmarks/gptoss_fp4_h100_docker.sh, 2025-12-08: max-concurrency CONC again",
    ),
    _vllm(
        models=_GPT_OSS,
        devices=_BLACKWELL,
        token_budget=8192,
        source="benchmarks/gptoss_fp4_b200_slurm.sh, 2025-09-17",
    ),
    _vllm(
        models=_GPT_OSS,
        devices=_BLACKWELL,
        since="2025-12-05",
        token_budget=8192,
        cache="fp8",
        source="benchmarks/gptoss_fp4_b200_docker.sh, 2025-12-05: kv-cache-dtype fp8",
    ),
    _vllm(
        models=_LLAMA,
        token_budget=8192,
        cache="fp8",
        release="0.11.0",
        source=(
            "benchmarks/70b_fp8_h200_slurm.sh, 2025-09-15: kv-cache-dtype fp8;"
            " .github/workflows/70b-tmpl.yml, 2025-10: vllm-openai:v0.11.0, the last that ran these"
            " models"
        ),
    ),
    _vllm(
        models=(*_KIMI, *_MINIMAX),
        devices=_BLACKWELL,
        source="benchmarks/minimaxm2.5_fp8_b200.sh, 2026-03-11",
    ),
    _vllm(
        models=(*_KIMI, *_MINIMAX),
        devices=_BLACKWELL,
        since="2026-04-03",
        prompts=2,
        cache="fp8",
        source=(
            "benchmarks/single_node/minimaxm2.5_fp8_b200.sh, 2026-04-03, minimaxm2.5_fp4_b200.sh,"
            " 2026-04-08, and kimik2.5_fp4_b200.sh, 2026-04-20: max-num-batched-tokens 2 ISL,"
            " kv-cache-dtype fp8"
        ),
    ),
    _vllm(
        models=_KIMI,
        devices=_BLACKWELL,
        precision="int4",
        source="benchmarks/single_node/kimik2.5_int4_b200.sh, 2026-02-23: max-num-seqs CONC alone",
    ),
    _trtllm(source="no script sets anything for other models"),
    _trtllm(
        models=_LLAMA,
        token_budget=16384,
        cache="fp8",
        wait=BatchWait(iterations=20, ratio=0.9, devices=8),
        source=(
            "benchmarks/70b_fp8_h200_trt_slurm.sh, 2025-09-18: max_num_tokens 16384, fp8,"
            " batch_wait below TP8"
        ),
    ),
    _trtllm(
        models=_GPT_OSS,
        token_budget=20000,
        memory_ratio=0.85,
        cache="bf16",
        source=(
            "benchmarks/gptoss_fp4_h200_trt_slurm.sh, 2025-09-15: max_num_tokens 20000, cache"
            " `auto`, 0.85"
        ),
    ),
    _trtllm(
        models=_GPT_OSS,
        devices=_BLACKWELL,
        token_budget=20000,
        memory_ratio=0.85,
        cache="fp8",
        source="benchmarks/gptoss_fp4_b200_trt_slurm.sh, 2025-10-20: kv_cache_config.dtype fp8",
    ),
    _sized(
        memory_ratio=0.75,
        copies=((_SHORT, 65), (_WRITING, 65), (_READING, 33)),
        source=(
            "benchmarks/dsr1_fp8_h200_trt_slurm.sh, 2025-09-18: max_num_tokens CONC + ISL + 64,"
            " cache fp8, 0.75, DP_ATTENTION by CONC"
        ),
    ),
    _sized(
        since="2025-11-03",
        memory_ratio=0.75,
        source=(
            "benchmarks/dsr1_fp8_h200_trt_slurm.sh, 2025-11-03: DP_ATTENTION by the configuration"
        ),
    ),
    _sized(
        since="2026-01-21",
        token_budget=8192,
        memory_ratio=0.75,
        source="benchmarks/dsr1_fp8_h200_trt_slurm.sh, 2026-01-21: max_num_tokens at least 8192",
    ),
    _sized(
        devices=_BLACKWELL,
        memory_ratio=0.8,
        copies=((_SHORT, 256), (_WRITING, 256), (_READING, 33)),
        source=(
            "benchmarks/dsr1_fp4_b200_trt_slurm.sh, 2025-09-18: max_num_tokens CONC + ISL + 64,"
            " cache fp8, 0.8, DP_ATTENTION by CONC"
        ),
    ),
    _sized(
        devices=_BLACKWELL,
        since="2025-11-03",
        memory_ratio=0.8,
        source=(
            "benchmarks/dsr1_fp4_b200_trt_slurm.sh, 2025-11-03: DP_ATTENTION by the configuration"
        ),
    ),
    _sized(
        devices=_BLACKWELL,
        since="2026-01-21",
        token_budget=8192,
        memory_ratio=0.8,
        source="benchmarks/dsr1_fp4_b200_trt_slurm.sh, 2026-01-21: max_num_tokens at least 8192",
    ),
    _sized(
        devices=_BLACKWELL,
        precision="fp8",
        memory_ratio=0.8,
        copies=((_SHORT, 33), (_WRITING, 65), (_READING, 65)),
        source="benchmarks/dsr1_fp8_b200_trt_slurm.sh, 2025-09-18: DP_ATTENTION by CONC",
    ),
    _sized(
        devices=_BLACKWELL,
        precision="fp8",
        since="2025-11-03",
        memory_ratio=0.8,
        source=(
            "benchmarks/dsr1_fp8_b200_trt_slurm.sh, 2025-11-03: DP_ATTENTION by the configuration"
        ),
    ),
    _sized(
        devices=_BLACKWELL,
        precision="fp8",
        since="2026-01-29",
        token_budget=8192,
        memory_ratio=0.8,
        wait=BatchWait(iterations=40, ratio=0.8, users=64),
        source="benchmarks/dsr1_fp8_b200_trt.sh, 2026-01-29: batch_wait from 64 users on",
    ),
    _sglang(source="no script sets anything for other models"),
    _sglang(
        models=_DEEPSEEK,
        token_budget=32768,
        memory_ratio=0.82,
        source=(
            "benchmarks/dsr1_fp8_h200_slurm.sh, 2025-09-19: chunked-prefill-size 32768,"
            " mem-fraction-static 0.82"
        ),
    ),
    _sglang(
        models=_DEEPSEEK,
        devices=_BLACKWELL,
        token_budget=16384,
        max_requests=256,
        memory_ratio=0.85,
        cache="fp8",
        receives=_SELDOM,
        source=(
            "benchmarks/dsr1_fp4_b200_docker.sh, 2025-09-21: chunked-prefill-size 16384, 0.85,"
            " fp8_e4m3, scheduler-recv-interval 10, and 30 from 16 users on"
        ),
    ),
    _sglang(
        models=_DEEPSEEK,
        devices=_BLACKWELL,
        precision="fp8",
        token_budget=32768,
        max_requests=128,
        memory_ratio=0.82,
        cache="fp8",
        receives=_SELDOM,
        source=(
            "benchmarks/dsr1_fp8_b200_docker.sh, 2025-09-23: chunked-prefill-size 32768, 0.82, 128"
            " requests"
        ),
    ),
    _sglang(
        models=_DEEPSEEK,
        devices=("mi300x", "mi325x"),
        token_budget=196_608,
        memory_ratio=0.8,
        source=(
            "benchmarks/dsr1_fp8_mi300x_docker.sh and dsr1_fp8_mi325x_docker.sh, 2025-09-18:"
            " chunked-prefill-size 196608, mem-fraction-static 0.8"
        ),
    ),
    _sglang(
        models=_DEEPSEEK,
        devices=("mi355x",),
        token_budget=196_608,
        memory_ratio=0.8,
        prompt_limits=(_MANY_PROMPTS, PromptLimits(token_budget=262_144, max_requests=8)),
        source=(
            "benchmarks/dsr1_fp8_mi355x_docker.sh, 2025-09-20: chunked-prefill-size 196608,"
            " mem-fraction-static 0.8; prompts apart: sglang_disagg_server.sh of"
            " billishyahao/sglang_disagg at sa-260107, which dsr1_fp8_mi355x_sglang-disagg_slurm.sh,"
            " 2026-01-08, runs: chunked-prefill-size 262144, max-running-requests 8 with dp-attention"
            " and 128 without"
        ),
    ),
    _sglang(
        models=_DEEPSEEK,
        devices=("mi355x",),
        since="2026-02-19",
        token_budget=196_608,
        memory_ratio=0.8,
        prompt_limits=(_MANY_PROMPTS, PromptLimits(token_budget=131_072, max_requests=24)),
        source=(
            "benchmarks/multi_node/amd_utils/models.yaml, 2026-02-19: 24 requests with dp-attention,"
            " 16384 tokens a rank of eight"
        ),
    ),
    _sglang(
        models=_QWEN,
        token_budget=16384,
        max_requests=128,
        memory_ratio=0.8,
        cache="fp8",
        source=(
            "benchmarks/single_node/qwen3.5_fp8_h200.sh, 2026-03: chunked-prefill-size 16384, 0.8,"
            " fp8_e4m3"
        ),
    ),
    _sglang(
        models=_QWEN,
        devices=_BLACKWELL,
        token_budget=32768,
        max_requests=128,
        memory_ratio=0.82,
        cache="fp8",
        receives=_SELDOM,
        source="benchmarks/single_node/qwen3.5_fp8_b200.sh and qwen3.5_fp4_b200.sh, 2026-04",
    ),
    _sglang(
        models=_QWEN,
        devices=_BLACKWELL,
        precision="bf16",
        token_budget=32768,
        max_requests=128,
        memory_ratio=0.82,
        receives=_SELDOM,
        source="benchmarks/single_node/qwen3.5_bf16_b200.sh, 2026-02-19: the cache stays as it is",
    ),
    _sglang(
        models=_GLM,
        memory_ratio=0.85,
        source="benchmarks/single_node/glm5_fp8_h200.sh, 2026-03-18: mem-fraction-static 0.85",
    ),
    _sglang(
        models=_GLM,
        devices=_BLACKWELL,
        token_budget=32768,
        memory_ratio=0.85,
        cache="fp8",
        source=(
            "benchmarks/single_node/glm5_fp8_b200.sh, 2026-03-20: chunked-prefill-size 32768, 0.85,"
            " fp8_e4m3"
        ),
    ),
    _sglang(
        models=_GLM,
        devices=_BLACKWELL,
        precision="fp4",
        token_budget=32768,
        memory_ratio=0.9,
        cache="fp8",
        receives=((1, 10),),
        source="benchmarks/single_node/glm5_fp4_b200.sh, 2026-04-09: scheduler-recv-interval 10",
    ),
    _atom(
        cache="fp8",
        source=(
            "benchmarks/dsr1_fp4_mi355x_atom_docker.sh and gptoss_fp4_mi355x_atom_docker.sh,"
            " 2026-01: kv_cache_dtype fp8"
        ),
    ),
    _generator(
        engine="vllm",
        beyond_users=True,
        source=(
            "aiconfigurator, generator/rule_plugin/benchmark/vllm.rule: max-num-batched-tokens by"
            " batch and prompt"
        ),
    ),
    _generator(
        engine="tensorrt-llm",
        beyond_users=True,
        memory_ratio=0.8,
        source=(
            "aiconfigurator, generator/rule_plugin/benchmark/trtllm.rule: max_num_tokens by batch"
            " and prompt; backend_templates/trtllm/extra_engine_args.*:"
            " kv_cache_config.free_gpu_memory_fraction 0.8"
        ),
    ),
    _generator(
        engine="sglang",
        whole_prompts=True,
        source=(
            "aiconfigurator, generator/rule_plugin/benchmark/sglang.rule: max_prefill_tokens by the"
            " prompt, which whole prompts fill (0.5's schedule_policy.py admits one that fits in"
            " what is left); the rule's mixed chunks do not reach SGLang, whose 0.5.1 template"
            " looks for them under another name"
        ),
    ),
)


def settings_of(
    launch: LaunchName, *, engine: str, model: str, device: str, precision: str | None
) -> LaunchSettings | None:
    """What a launch sets for a deployment, or None for an engine that its scripts do not start.

    Args:
        launch: as it is named. Days before the first entry take that one.
        engine: its name.
        model: its name.
        device: its name.
        precision: a table's word for the format of the weights; None: it does not say.
    """
    spoken = [
        entry
        for entry in SETTINGS
        if (entry.scripts, entry.engine) == (launch.scripts, engine)
        and entry.holds(model=model, device=device, precision=precision)
    ]
    if not spoken:
        return None
    closest = max(entry.subject for entry in spoken)
    same = [entry for entry in spoken if entry.subject == closest]
    begun = [entry for entry in same if launch.includes(entry.since)]
    return begun[-1] if begun else same[0]
