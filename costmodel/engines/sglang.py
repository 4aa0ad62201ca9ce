"""SGLang, version 0.5: waiting prompts run first and alone, a share of memory set aside for all
that is not cache.
"""

from functools import partial

from costmodel.engines.record.engine import (
    ANY,
    Engine,
    ExpertChoice,
    Kernels,
    ProductWalk,
    SchedulerDefaults,
)
from costmodel.engines.record.host import ColdBurst, Host
from costmodel.engines.record.memory import PROCESS_BYTES, Memory
from costmodel.engines.record.options import Drafting, Options
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate
from costmodel.passes.expert_kernels import BLACKWELL, CDNA3, HOPPER
from costmodel.passes.kernels.communication import Reductions
from costmodel.scheduler import Scheduler
from hardware_profiles.units import MIB

_READ = Gate(first="0.5.23")
_drafting = partial(
    Drafting,
    releases=_READ,
    static_tree=(
        "builds its trees at run time and cannot load a static one; ask for an approximation"
    ),
    dynamic_tree=_READ,
    schedule="only eagle3 and mtp follow a schedule",
    stop="cannot stop a draft on low confidence",
    synthetic=_READ,
)
# InferenceX sends the first wave at once and warms no batch size up; ten waves, so that the wave
# takes ten times what mean and median of the time to first token differ by beyond a simulation
_COLD = "ten times mean less median of the time to first token of InferenceX's runs, above ours: "

ENGINE = Engine(
    name="sglang",
    overheads={
        ANY: Overhead(
            engine="sglang",
            versions="0.5",
            step_s=0.3e-3,
            draft_s=0.5e-3,
            spread_ratio=0.6,
            source=(
                "ASSUMED: the low end of the 0.2 to 1.2 ms seen over engines; SGLang schedules"
                " ahead of the GPU"
            ),
        )
    },
    kernels=Kernels(
        merges_experts=frozenset({"deepseek_v3", "deepseek_v32"}),
        experts=(
            ExpertChoice(kernel="marlin", devices=HOPPER, formats=("4/16",)),
            ExpertChoice(kernel="triton", devices=HOPPER, formats=("8/8",)),
            ExpertChoice(kernel="trtllm", devices=BLACKWELL, formats=("8/8", "4/4", "4/8", "4/16")),
            ExpertChoice(kernel="aiter-one-stage", devices=CDNA3, formats=("8/8",)),
        ),
        walks=(
            ProductWalk(
                devices=("mi300x", "mi325x"),
                arithmetic="fp8",
                walk_s=2.2e-6,
                source=(
                    "aiter's a8w8 blockscale kernel in a profile of DeepSeek-R1 on eight MI325X, 64"
                    " rows: 122 to 123 us with 7168 inputs, 39 with 2304, 34 with 2048"
                    " (SemiAnalysisAI/InferenceX issue 863, 2026-03); that it has no configuration"
                    " for these shapes is what ROCm/aiter pull request 1930 says"
                ),
            ),
            ProductWalk(
                devices=("mi355x",),
                arithmetic="fp8",
                walk_s=0.4e-6,
                source=(
                    "tuned blockscale kernels of ROCm/aiter (@e4048607,"
                    " a8w8_blockscale_tuned_gemm_ds_v3.csv, gfx950), 1 to 64 rows: 22.4 us with"
                    " 7168 inputs whatever the outputs, 8.0 to 9.5 with 2048 and 2304"
                ),
            ),
        ),
        prompt_attention="flash-attention-3",
        reductions=Reductions(
            backend="vllm",
            most_over_host=2,
            source=(
                "vLLM's kernels; custom_all_reduce_utils.py, can_use_custom_all_reduce_with_nvlink:"
                " not on more than two GPUs over PCIe alone (as quoted in pull request 2 of"
                " haohervchb/sglang-V100)"
            ),
        ),
        source=(
            "fa3 on Hopper (server_args.py, attention_backend); ASSUMED: its kernels split the"
            " cache; one kernel for both norms (qknorm.cuh); inputs are quantised apart (before its"
            " pull request 32994); the shared expert of DeepSeek-V3 is a routed one"
            " (models/deepseek_v2.py, determine_num_fused_shared_experts)"
        ),
    ),
    host=Host(
        layer_ratio=1.66,
        idle_s=0.3e-3,
        cold=(
            ColdBurst(
                devices=("h100", "h200", "h20", "h800", "gh200"),
                doubling_s=0.48,
                source=_COLD + "DeepSeek-R1 on 8 H200, 4 to 64 users, .5 to 2.4 s",
            ),
            ColdBurst(
                devices=("mi300x", "mi325x"),
                first_s=2.5,
                doubling_s=0.4,
                source=_COLD + "DeepSeek-R1 on 8 MI300X and MI325X, 4 to 64 users, 2.5 to 6 s",
            ),
            ColdBurst(
                devices=("mi355x",),
                first_s=0.9,
                source=_COLD + "DeepSeek-R1 on 8 MI355X, whatever the users",
            ),
            ColdBurst(
                devices=("b200", "b300", "gb200", "gb300"),
                first_s=1.5,
                source=_COLD + "Qwen3.5-397B and GLM-5 on B200 and B300, 1 to 2 s at any load",
            ),
        ),
        source=(
            "a prompt of one token of DeepSeek-V3 takes 82.6 ms without graphs, 23.1 with (its pull"
            " request 12160); ASSUMED for the gap: sampling and the launch of the next graph"
        ),
    ),
    memory=Memory(
        reserved_bytes=13_440 * MIB,
        activations_inside=False,
        unseen_bytes=PROCESS_BYTES,
        block_tokens=1,
        source=(
            "sglang/srt/server_args.py 0.5: mem_fraction_static leaves 512 MiB + 1.5 MiB a token of"
            " a chunk of 8192 + 2 MiB for each of 256 graphed requests + 128 MiB a device (0.835 of"
            " an H100); ASSUMED: pages of one token"
        ),
    ),
    scheduler_defaults=SchedulerDefaults(
        versions="0.5",
        large=Scheduler(
            token_budget=8192,
            max_requests=4096,
            chunked_prefill=True,
            prefill_first=True,
            prefix_cache=True,
            overlapped_scheduling=True,
            reserve_ratio=0.1,
        ),
        source=(
            "sglang/srt/server_args.py 0.5: chunked_prefill_size 8192 from 25 GB of memory,"
            " max_prefill_tokens 16384 (the chunk binds first), enable_mixed_chunk False, a radix"
            " cache; of an output 0.7 is reserved at first, decaying to 0.098"
            " (init_new_token_ratio, 0.14 of it at the least); the next batch is launched before"
            " the last one is processed (event_loop_overlap, the default since pull request 2067,"
            " which names the TTFT that it costs)"
        ),
    ),
    options=Options(
        releases=("0.5.23",),
        default="0.5.23",
        drafting={
            "draft_model": _drafting(name="STANDALONE"),
            "ngram": _drafting(
                name="NGRAM",
                static_tree="NGRAM drafts the branches that its trie holds",
                dynamic_tree="NGRAM drafts the branches that its trie holds",
                synthetic=(
                    "one simulated acceptance length holds for every step of an EAGLE-like chain of"
                    " one length"
                ),
            ),
            "eagle3": _drafting(name="EAGLE3", schedule=_READ, adapts=_READ),
            "mtp": _drafting(name="NEXTN", schedule=_READ, adapts=_READ),
            "dflash": _drafting(name="DFLASH", dynamic_tree="DFLASH drafts one chain"),
            "dspark": _drafting(
                name="DSPARK", dynamic_tree="DSPARK drafts one chain", verifies=_READ
            ),
        },
        without={},
        parallel={
            "tensor": _READ,
            "pipeline": _READ,
            "expert": _READ,
            "data": _READ,
            "context": (
                "shares the tokens of a request among its tensor-parallel devices, which was not"
                " priced"
            ),
            "nodes": _READ,
        },
        several_requests=_READ,
        source=(
            "sglang/srt/server_args.py and the speculative workers of the release listed, read from"
            " its wheel"
        ),
    ),
)
