"""What do the scripts set that publishers of tables launch engines with?

Settings as data, one entry for each engine, family of models, kind of device and time that the scripts tell apart, with
the script they were read from. Leaves out what no script sets, which keeps the engine's default, and who published a
row (`simulator.closed_loop.launches`).
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

Publisher = Literal["inferencex", "generator"]

# SemiAnalysisAI/InferenceX (once InferenceMAX), .github/workflows and configs: RANDOM_RANGE_RATIO 0.8 with these pairs
# of (ISL, OSL) throughout; utils/bench_serving draws both lengths evenly from 0.8 of them to all of them
RANGE_SPREAD = 0.2
RANGE_LENGTHS = ((1024, 1024), (1024, 8192), (8192, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
class Habit:
    """What a publisher's scripts set for an engine; None and False: what the engine does by default.

    Args:
        publisher: whose scripts.
        engine: as the library of engines names it.
        models: beginnings of the names of models; empty for all others.
        devices: beginnings of the names of devices; empty for all others.
        since: first day, ISO; the scripts before it set what the entry before this one says.
        batch_tokens: least limit of the query tokens of an iteration.
        beyond_prompt: the limit is at least a prompt and so many tokens.
        beyond_users: and one for every user.
        whole_prompts: the limit is filled by whole prompts where it lies below the engine's own.
        requests: most requests in flight; None: all users.
        memory_ratio: share of the memory that the engine or its cache is given.
        cache: number format of keys and values.
        overlaps: overlapped scheduling is switched on.
        sends: users of the load generator whatever the most requests are, which a row with so many then does not say.
        source: what was read, with its day.
    """

    publisher: Publisher
    engine: str
    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    since: str = ""
    batch_tokens: int | None = None
    beyond_prompt: int | None = None
    beyond_users: bool = False
    whole_prompts: bool = False
    requests: int | None = None
    memory_ratio: float | None = None
    cache: str | None = None
    overlaps: bool = False
    sends: int | None = None
    source: str

    @property
    def specific(self) -> int:
        """How closely it says where it holds: a model counts for more than a device."""
        return 2 * bool(self.models) + bool(self.devices)


_H100 = ("h100",)
_BLACKWELL = ("b200", "b300", "gb200", "gb300")
_LLAMA, _GPT_OSS, _DEEPSEEK = ("llama-3.1-70b", "llama-3.3-70b"), ("gpt-oss",), ("deepseek",)
_inferencex = partial(Habit, publisher="inferencex")
_vllm = partial(_inferencex, engine="vllm", batch_tokens=8192, overlaps=True)
_trtllm = partial(_inferencex, engine="tensorrt-llm")
_sglang = partial(_inferencex, engine="sglang", models=_DEEPSEEK)
_generator = partial(Habit, publisher="generator", beyond_prompt=1500)

HABITS: tuple[Habit, ...] = (
    _vllm(source="benchmarks/gptoss_fp4_h100_docker.sh, 2025-09-23: max-num-batched-tokens 8192, async-scheduling"),
    _vllm(models=_GPT_OSS, devices=_H100, source="benchmarks/gptoss_fp4_h100_docker.sh, 2025-09-23"),
    _vllm(
        models=_GPT_OSS, devices=_H100, since="2025-11-21", sends=512,
        source="benchmarks/gptoss_fp4_h100_docker.sh, 2025-11-21: max-num-seqs CONC, but max-concurrency 512",
    ),
    _vllm(
        models=_GPT_OSS, devices=_H100, since="2025-12-09",
        source="benchmarks/gptoss_fp4_h100_docker.sh, 2025-12-08: max-concurrency CONC again",
    ),
    _vllm(models=_LLAMA, cache="fp8", source="benchmarks/70b_fp8_h200_slurm.sh, 2025-09-15: kv-cache-dtype fp8"),
    _vllm(models=_GPT_OSS, devices=_BLACKWELL, source="benchmarks/gptoss_fp4_b200_slurm.sh, 2025-09-17"),
    _vllm(
        models=_GPT_OSS, devices=_BLACKWELL, since="2025-12-05", cache="fp8",
        source="benchmarks/gptoss_fp4_b200_docker.sh, 2025-12-05: kv-cache-dtype fp8",
    ),
    _trtllm(source="no script sets anything for other models"),
    _trtllm(
        models=_LLAMA, batch_tokens=16384, cache="fp8",
        source="benchmarks/70b_fp8_h200_trt_slurm.sh, 2025-09-18: max_num_tokens 16384, kv_cache_config.dtype fp8",
    ),
    _trtllm(
        models=_GPT_OSS, batch_tokens=20000, memory_ratio=0.85, cache="bf16",
        source="benchmarks/gptoss_fp4_h200_trt_slurm.sh, 2025-09-15: max_num_tokens 20000, cache `auto`, 0.85",
    ),
    _trtllm(
        models=_GPT_OSS, devices=_BLACKWELL, batch_tokens=20000, memory_ratio=0.85, cache="fp8",
        source="benchmarks/gptoss_fp4_b200_trt_slurm.sh, 2025-10-20: kv_cache_config.dtype fp8",
    ),
    _trtllm(
        models=_DEEPSEEK, beyond_prompt=64, beyond_users=True, memory_ratio=0.75, cache="fp8",
        source="benchmarks/dsr1_fp8_h200_trt_slurm.sh, 2025-09-18: max_num_tokens CONC + ISL + 64, fp8, 0.75",
    ),
    _trtllm(
        models=_DEEPSEEK, since="2026-01-21", batch_tokens=8192, beyond_prompt=64, beyond_users=True,
        memory_ratio=0.75, cache="fp8",
        source="benchmarks/dsr1_fp8_h200_trt_slurm.sh, 2026-01-21: max_num_tokens at least 8192",
    ),
    _trtllm(
        models=_DEEPSEEK, devices=_BLACKWELL, beyond_prompt=64, beyond_users=True, memory_ratio=0.8, cache="fp8",
        source="benchmarks/dsr1_fp4_b200_trt_slurm.sh, 2025-09-18: max_num_tokens CONC + ISL + 64, fp8, 0.8",
    ),
    _trtllm(
        models=_DEEPSEEK, devices=_BLACKWELL, since="2026-01-21", batch_tokens=8192, beyond_prompt=64,
        beyond_users=True, memory_ratio=0.8, cache="fp8",
        source="benchmarks/dsr1_fp4_b200_trt_slurm.sh, 2026-01-21: max_num_tokens at least 8192",
    ),
    _inferencex(engine="sglang", source="no script sets anything for other models"),
    _sglang(
        batch_tokens=32768, memory_ratio=0.82,
        source="benchmarks/dsr1_fp8_h200_slurm.sh, 2025-09-19: chunked-prefill-size 32768, mem-fraction-static 0.82",
    ),
    _sglang(
        devices=_BLACKWELL, batch_tokens=16384, requests=256, memory_ratio=0.85, cache="fp8",
        source="benchmarks/dsr1_fp4_b200_docker.sh, 2025-09-21: chunked-prefill-size 16384, fp8_e4m3, 0.85; the fp8 "
        "script of 2025-09-23 allows 32768 and 128 requests",
    ),
    _generator(
        engine="vllm", beyond_users=True,
        source="aiconfigurator, generator/rule_plugin/benchmark/vllm.rule: max-num-batched-tokens by batch and prompt",
    ),
    _generator(
        engine="tensorrt-llm", beyond_users=True, memory_ratio=0.8,
        source="aiconfigurator, generator/rule_plugin/benchmark/trtllm.rule: max_num_tokens by batch and prompt; "
        "backend_templates/trtllm/extra_engine_args.*: kv_cache_config.free_gpu_memory_fraction 0.8",
    ),
    _generator(
        engine="sglang", whole_prompts=True,
        source="aiconfigurator, generator/rule_plugin/benchmark/sglang.rule: max_prefill_tokens by the prompt, which "
        "whole prompts fill (0.5's schedule_policy.py admits one that fits in what is left); the rule's mixed chunks "
        "do not reach SGLang, whose 0.5.1 template looks for them under another name",
    ),
)  # fmt: skip


def habit(publisher: Publisher, *, engine: str, model: str, device: str, day: str | None) -> Habit | None:
    """The entry that holds for a launch, or None for an engine without one.

    Args:
        publisher: whose scripts.
        engine: its name.
        model: its name.
        device: its name.
        day: of the measurement, ISO; None: the newest scripts. Days before the first entry take that one.
    """
    found = [
        entry
        for entry in HABITS
        if (entry.publisher, entry.engine) == (publisher, engine)
        and (not entry.models or model.startswith(entry.models))
        and (not entry.devices or device.startswith(entry.devices))
    ]
    if not found:
        return None
    closest = max(entry.specific for entry in found)
    found = [entry for entry in found if entry.specific == closest]
    begun = [entry for entry in found if day is None or entry.since <= day]
    return begun[-1] if begun else found[0]
