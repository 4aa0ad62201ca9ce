"""ATOM, AMD's engine on AITER kernels, versions 0.1: whole prompts run first and alone, a paged
cache, graphs of passes that only decode.
"""

from costmodel.engines.record.engine import ANY, Engine, Kernels, SchedulerDefaults
from costmodel.engines.record.memory import DRIVER_BYTES, Memory
from costmodel.engines.record.overhead import Overhead
from costmodel.passes.kernels.communication import Reductions
from costmodel.scheduler import Scheduler

ENGINE = Engine(
    name="atom",
    overheads={
        ANY: Overhead(
            engine="atom",
            versions="0.1",
            step_s=0.3e-3,
            draft_s=0.5e-3,
            spread_ratio=0.6,
            source=(
                "ASSUMED: as SGLang, which schedules ahead of the GPU too; no run without"
                " speculation was taken apart"
            ),
        )
    },
    kernels=Kernels(
        merges_experts=frozenset({"deepseek_v3", "deepseek_v32"}),
        reductions=Reductions(
            backend="vllm",
            source=(
                "ASSUMED: AITER's custom all-reduce, which stems from vLLM's, at the speed of that"
            ),
        ),
        source=(
            "the shared expert of DeepSeek-V3 is a routed one (ROCm/ATOM,"
            " atom/model_ops/topK.py, is_rocm_aiter_fusion_shared_expert_enabled); ASSUMED: kernels"
            " as in the device's profile, which split the cache"
        ),
    ),
    memory=Memory(
        ratio=0.9,
        unseen_bytes=DRIVER_BYTES,
        block_tokens=16,
        source=(
            "gpu_memory_utilization 0.9 and kv_cache_block_size 16 (ROCm/ATOM,"
            " docs/configuration_guide.md)"
        ),
    ),
    scheduler_defaults=SchedulerDefaults(
        versions="0.1",
        large=Scheduler(
            token_budget=16384,
            max_requests=512,
            chunked_prefill=False,
            prefill_first=True,
            prefix_cache=False,
            overlapped_scheduling=True,
            reserve_ratio=0.0,
        ),
        source=(
            "ROCm/ATOM, docs/scheduling_kv_cache_guide.md: all waiting prompts that fit in"
            " max_num_batched_tokens 16384 run before any request decodes, up to max_num_seqs 512;"
            " preemption by recomputation; prefix caching off; outputs are read one step late"
        ),
    ),
)
