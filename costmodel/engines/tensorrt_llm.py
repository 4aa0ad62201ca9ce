"""TensorRT-LLM with its PyTorch backend, versions 1.0 to 1.4: whole prompts, its own all-reduce, no
preemption.
"""

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
from costmodel.engines.record.memory import PROCESS_BYTES, Memory
from costmodel.engines.record.options import Drafting, Options
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate
from costmodel.passes.expert_kernels import BLACKWELL, HOPPER
from costmodel.passes.kernels.communication import Reductions
from costmodel.scheduler import Scheduler

_READ = Gate(first="1.3.0rc27")
_BEFORE_1_4 = Gate(first="1.3.0rc27", last="1.3.0rc27", why="later releases were not read for it")
_drafting = partial(
    Drafting,
    static_tree="static trees belong to eagle3",
    dynamic_tree="static trees belong to eagle3, dynamic ones to eagle3 and mtp",
    schedule=_READ,
    stop="cannot stop a draft on low confidence",
    synthetic=_READ,
)

ENGINE = Engine(
    name="tensorrt-llm",
    aliases=("trtllm", "tensorrt_llm", "trt-llm"),
    overheads={
        ANY: Overhead(
            engine="tensorrt-llm",
            versions="1.x",
            step_s=0.3e-3,
            draft_s=0.4e-3,
            spread_ratio=0.6,
            source="ASSUMED: the low end of the 0.2 to 1.2 ms seen over engines",
        )
    },
    kernels=Kernels(
        head_norm_kernels=0,
        norms_in_reductions=frozenset({"llama", "mistral", "deepseek_v3"}),
        fused_width=4096,
        one_shot_rows=128,
        quantised_inputs=frozenset({"output", "down"}),
        experts=(
            ExpertChoice(kernel="cutlass", devices=HOPPER, formats=("8/8",)),
            ExpertChoice(kernel="trtllm", devices=HOPPER, formats=("4/16",)),
            ExpertChoice(kernel="deepgemm", devices=BLACKWELL, formats=("8/8",)),
            ExpertChoice(kernel="trtllm-low-latency", devices=BLACKWELL, formats=("4/4",)),
            ExpertChoice(kernel="trtllm", devices=BLACKWELL, formats=("4/8", "4/16")),
        ),
        products="trtllm",
        reductions=Reductions(
            backend="trtllm",
            most_over_host=1,
            source=(
                "cpp/tensorrt_llm/plugins/ncclPlugin/allreducePlugin.cpp, selectImplementation:"
                " strategy AUTO is NCCL without NVLink; its all-reduces on 2 to 8 RTX PRO 6000 take"
                " as long as NCCL's in the tables of aiconfigurator"
            ),
        ),
        fp8_cache=True,
        source=(
            "norms of queries and keys fused (its pull request 4611); attention and activation"
            " write fp8 (_torch/modules/attention.py, out_scale; gated_mlp.py, swiglu with"
            " quant_scale); Llama above a width of 4096 and DeepSeek reduce and normalise in one"
            " kernel, Llama quantises there too (its pull request 6205; EagerFusionConfig), in one"
            " shot up to 128 tokens (allreduceOp.cpp: MIN_LATENCY where it quantises,"
            " kOneShotMaxToken), Qwen3 does not (modeling_qwen3.py); kv_cache_config.dtype `auto`"
            " follows the checkpoint, and NVIDIA's fp8 checkpoints carry kv_cache_quant_algo FP8;"
            " the PyTorch backend captures graphs of generation-only batches (cuda_graph_config);"
            " ASSUMED: its kernels split the cache"
        ),
    ),
    host=Host(
        layer_ratio=2.1,
        prompt_s=4.9e-3,
        idle_s=0.3e-3,
        source=(
            "fitted by simulator.closed_loop.fit to measured serving runs of release 1.0.0rc3,"
            " Llama-3.1-8B (32 layers) and Qwen3-32B (64) on 1 to 8 H100; its PyTorch backend"
            " captures no graph of a batch with prompts"
        ),
    ),
    idle_drafter=IdleDrafter(
        source=(
            "draft length 0 skips the drafter, whose cache has gaps from then on, so that fewer"
            " drafts are accepted when drafting resumes (its pull request 16888, which would draft"
            " one token instead); such steps prepare as those that draft do (its pull request"
            " 18837), by how long was not looked up"
        ),
    ),
    memory=Memory(
        ratio=0.9,
        of_free=True,
        unseen_bytes=PROCESS_BYTES,
        block_tokens=32,
        source=(
            "tensorrt_llm/llmapi/llm_args.py 1.0: free_gpu_memory_fraction 0.9; ASSUMED: blocks of"
            " 32 tokens"
        ),
    ),
    scheduler_defaults=SchedulerDefaults(
        versions="1.0-1.3",
        large=Scheduler(
            token_budget=8192,
            max_requests=2048,
            chunked_prefill=False,
            prefill_first=False,
            prefix_cache=True,
            overlapped_scheduling=True,
            reserve_ratio=1.0,
        ),
        source=(
            "tensorrt_llm/llmapi/llm_args.py 1.0: max_num_tokens 8192, max_batch_size 2048,"
            " enable_chunked_prefill False, GUARANTEED_NO_EVICT,"
            " kv_cache_config.enable_block_reuse; step n + 1 is launched before the outcome of step"
            " n is looked at (features/overlap-scheduler of its documentation, on by default)"
        ),
    ),
    options=Options(
        releases=("1.3.0rc27", "1.4.0rc1"),
        default="1.3.0rc27",
        drafting={
            "draft_model": _drafting(name="Draft_Target", releases=_BEFORE_1_4),
            "ngram": _drafting(
                name="NGram",
                releases=_BEFORE_1_4,
                synthetic=(
                    "forces the number of accepted tokens of drafters inside the target's pass, not"
                    " of NGram"
                ),
                variants={"SA": _BEFORE_1_4},
            ),
            "suffix_automaton": _drafting(name="SA", releases=_BEFORE_1_4),
            "pard": _drafting(name="PARD", releases=_BEFORE_1_4),
            "dflash": _drafting(name="DFlash", releases=_BEFORE_1_4),
            "eagle3": _drafting(
                name="Eagle3",
                releases=_READ,
                static_tree=Gate(
                    first="1.3.0rc27", last="1.3.0rc27", why="eagle_choices was removed in 1.4"
                ),
                dynamic_tree=_READ,
            ),
            "mtp": _drafting(name="MTP", releases=_READ, dynamic_tree=_READ),
        },
        without={"medusa": "Medusa heads belong to its older backend"},
        parallel={
            "tensor": _READ,
            "pipeline": _READ,
            "expert": _READ,
            "data": _READ,
            "nodes": _READ,
        },
        several_requests=_READ,
        source=(
            "tensorrt_llm/llmapi/llm_args.py of the releases listed; a schedule is read as `up to"
            " this batch size`, which holds since 1.3 (TensorRT-LLM#10860); forced acceptance:"
            " InferenceX, golden_al_distribution/README.md"
        ),
    ),
)
