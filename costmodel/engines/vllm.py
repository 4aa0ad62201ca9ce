"""vLLM, versions 0.8 to 0.33: a paged cache, prompts in chunks beside decoding requests, graphs of
up to 512 rows.
"""

from dataclasses import replace
from functools import partial

from costmodel.engines.record.engine import (
    ANY,
    Engine,
    ExpertChoice,
    Kernels,
    SchedulerDefaults,
)
from costmodel.engines.record.host import Host
from costmodel.engines.record.idle_drafter import IdleDrafter
from costmodel.engines.record.memory import DRIVER_BYTES, Memory
from costmodel.engines.record.options import Drafting, Options
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate
from costmodel.passes.expert_kernels import BLACKWELL, HOPPER
from costmodel.passes.kernels.communication import Reductions
from costmodel.scheduler import Scheduler
from hardware_profiles.units import GIB

# The coefficients of the source are 5.886 ms + 21.0 us per query token + KV at full bandwidth +
# 1.207 ms a step, and 2.135 ms for drafting at any length. Against their plain steps this model's
# passes (1 and 64 requests, 180 tokens of context) leave 0.79 ms a step and 10.6 us per request,
# and 1.13 ms of drafting at K = 3. A test recomputes all three. The fit knows no requests, only
# tokens; but vLLM's host loops over requests (update_from_output of its scheduler, _update_states
# and _bookkeeping_sync of its model runner) and treats the tokens of all of them as arrays. None of
# the speedups that predictions are scored on entered here.
_overhead = partial(
    Overhead,
    engine="vllm",
    versions="0.10-0.11",
    step_s=0.79e-3,
    request_s=10.6e-6,
    source=(
        "SpecDecode-Bench simulator predictor.py (github.com/SpecDecode-Bench/simulator@2fdccbd):"
        " coefficients its authors fitted to vLLM, Llama-3.1-8B on one H100, InstructCoder, batch 1"
        " to 64"
    ),
)
_SCHEDULER = Scheduler(
    token_budget=8192,
    max_requests=1024,
    chunked_prefill=True,
    prefill_first=False,
    prefix_cache=True,
    overlapped_scheduling=True,
    reserve_ratio=0.0,
)
_LOOKUP = _overhead(verify_ratio=0.005875)
_RELEASES = (
    "0.8.5",
    "0.9.0",
    "0.9.2",
    "0.11.2",
    "0.14.1",
    "0.15.1",
    "0.16.0",
    "0.17.1",
    "0.20.2",
    "0.21.0",
    "0.22.1",
    "0.23.0",
    "0.24.0",
    "0.25.1",
    "0.26.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
)
_ALL = Gate(first="0.8.5")
_drafting = partial(
    Drafting,
    static_tree="trees belong to eagle3",
    dynamic_tree="cannot build trees at run time",
    schedule=Gate(first="0.24.0"),
    stop="cannot stop a draft on low confidence",
    synthetic=Gate(first="0.20.2"),
)

ENGINE = Engine(
    name="vllm",
    overheads={ANY: _overhead(draft_s=1.13e-3), "lookup": _LOOKUP, "rows": _LOOKUP},
    kernels=Kernels(
        unsplit=(
            "a1",
            "a30",
            "a40",
            "a800",
            "dgx-spark",
            "jetson",
            "l20",
            "l4",
            "rtx",
            "t4",
            "v100",
        ),
        graph_rows=512,
        quantised_inputs=frozenset({"mixer", "feed_forward", "down"}),
        prompt_attention="flash-attention-3",
        experts=(
            ExpertChoice(kernel="marlin", devices=HOPPER, formats=("4/16",)),
            ExpertChoice(kernel="triton", devices=HOPPER, formats=("8/8",)),
            ExpertChoice(kernel="triton", devices=BLACKWELL, formats=("8/8",), until=(0, 24)),
            ExpertChoice(kernel="trtllm", devices=BLACKWELL, formats=("8/8", "4/4", "4/8", "4/16")),
        ),
        padded_experts=(256, 128),
        cut_bytes=710.0,
        cuts_until=(0, 17),
        quantised_cache=(((0, 12), 1.0), ((0, 20), 1 / 1.39)),
        reductions=Reductions(
            backend="vllm",
            most_over_host=2,
            source=(
                "vllm/distributed/device_communicators/custom_all_reduce.py, __init__ and"
                " should_custom_ar, as quoted in its issue 56128: off on more than two GPUs that"
                " are not fully connected by NVLink"
            ),
        ),
        source=(
            "FlashAttention-2's variable-length kernel never splits the cache for more than one"
            " query token, and runs where FlashAttention-3 (Hopper) and FlashInfer kernels"
            " (Blackwell data centre) are not available; graphs captured up to 512 rows"
            " (vllm/config/vllm.py); one kernel for both norms (its pull request 38621);"
            " quantisation joins norm and activation by its passes or by Inductor, and not"
            " attention (vllm/config/vllm.py: enable_norm_fusion, enable_act_fusion,"
            " fuse_attn_quant); top-k and top-p sort all logits on every rank"
            " (vllm/v1/sample/ops/topk_topp_sampler.py) until 0.17, which has a kernel for batches"
            " of 8 and more (its pull request 33538); traffic fitted to Qwen3-32B on 2 to 8 H100,"
            " release 0.12: 0.21 ns a logit, of which top-k alone takes 0.11 (its pull request"
            " 32558); FlashAttention 3 decodes over fp8 no faster than over 16 bits, 1.39 times as"
            " fast with the tiles of vllm-project/flash-attention's pull request 96 (2025-09-29),"
            " later in 54 % of the time (vLLM's blog of 2026-04-22); Marlin's experts need multiples"
            " of 256 and 128, to which MXFP4 is padded (layers/quantization/mxfp4.py)"
        ),
    ),
    host=Host(
        idle_s=0.2e-3,
        source=(
            "fitted to runs with asynchronous scheduling, gpt-oss-120b on H100, release 0.18: what"
            " remains of steps of 4 requests, median of ten runs"
        ),
    ),
    idle_drafter=IdleDrafter(
        follows=True,
        source=(
            "vllm/v1/spec_decode/llm_base_proposer.py, propose, at K = 0: the drafter's first pass"
            " has run, to keep its cache in step, before it returns; that pass takes 4.1 and 11.3 %"
            " of a step of Qwen3.6-35B-A3B with MTP at 1 and 2 requests, 9.4 and 8.9 % at 8 and 16"
            " (its issue 53420 and pull request 53426, two RTX 5090). A gap of half the speed of a"
            " server without a drafter, which one of the setups there saw besides, has no known"
            " cause and is left out"
        ),
    ),
    memory=Memory(
        ratio=0.9,
        unseen_bytes=DRIVER_BYTES,
        block_tokens=16,
        source=(
            "gpu_memory_utilization 0.9 and block_size 16 (vllm/config/cache.py), of what CUDA sees"
            " (its pull request 12126); activations of a profiled pass of max_num_batched_tokens"
            " count against the share"
        ),
    ),
    scheduler_defaults=SchedulerDefaults(
        versions="0.10-0.18",
        large=_SCHEDULER,
        large_bytes=70 * GIB,
        small=replace(_SCHEDULER, token_budget=2048, max_requests=256),
        small_devices=("a100",),
        overlaps_from=(0, 14),
        source=(
            "vllm/engine/arg_utils.py get_batch_defaults (server defaults by device memory, 0.10 to"
            " 0.18); decodes first, prompts in the rest of the budget, preemption by recomputation"
            " (vllm/v1/core/sched/scheduler.py); enable_prefix_caching on; asynchronous scheduling"
            " by default from 0.14.0 (its release notes)"
        ),
    ),
    options=Options(
        releases=_RELEASES,
        default="0.33.0",
        drafting={
            # the merged V1 proposer (vllm#24322); before it the V1 engine raises
            # NotImplementedError (vllm#31883)
            "draft_model": _drafting(
                name="draft_model",
                releases=Gate(
                    first="0.15.1", why="the V1 engine of older releases does not run draft models"
                ),
            ),
            "ngram": _drafting(
                name="ngram", releases=_ALL, variants={"ngram_gpu": Gate(first="0.20.2")}
            ),
            "suffix": _drafting(
                name="suffix", releases=Gate(first="0.11.2"), schedule="suffix ignores a schedule"
            ),
            "pard": _drafting(
                name="draft_model",
                releases=Gate(first="0.16.0", why="older releases do not draft in parallel"),
            ),
            "block_verification": _drafting(
                name="draft_model",
                releases=Gate(first="0.25.1", why="older releases verify token by token"),
                synthetic=(
                    "one way to reject tokens is chosen: block verification or synthetic acceptance"
                ),
            ),
            "dflash": _drafting(name="dflash", releases=Gate(first="0.20.2")),
            "dspark": _drafting(
                name="dspark",
                releases=Gate(first="0.25.1"),
                verifies=Gate(
                    first="0.29.0", why="older releases verify whole drafts of a confidence head"
                ),
            ),
            "medusa": _drafting(
                name="medusa",
                releases=Gate(first="0.8.5", last="0.32.0"),
                schedule="medusa ignores a schedule",
            ),
            "eagle3": _drafting(
                name="eagle3",
                releases=Gate(first="0.9.2"),
                static_tree=Gate(
                    first="0.9.0", last="0.20.2", why="trees were removed in vllm#42121"
                ),
            ),
            "mtp": _drafting(
                name="mtp",
                releases=Gate(first="0.11.2", why="older releases name it after the model family"),
            ),
        },
        without={},
        parallel={
            "tensor": _ALL,
            "pipeline": _ALL,
            "expert": _ALL,
            "data": _ALL,
            "context": (
                "shares the tokens of a request among its tensor-parallel devices, which was not"
                " priced"
            ),
            "nodes": Gate(first="0.11.2", why="older releases need a Ray cluster"),
        },
        several_requests=_ALL,
        source="vllm/config/speculative.py of every release listed, read from its wheel",
    ),
)
