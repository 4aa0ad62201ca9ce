"""How did those who measured a row of a table launch the engine, and how did they load it?

Two published habits stand behind most tables of serving runs: NVIDIA's, whose generator sizes an engine's batches by
the prompt, and InferenceMAX's, whose lengths vary. Leaves out options that no table and no script states.
"""

from dataclasses import dataclass, replace

from costmodel.serving.policies import Policy

# aiconfigurator, generator/rule_plugin/benchmark/{trtllm,vllm,sglang}.rule: an aggregated worker gets
# max_num_tokens = max_batch_size + isl + 1500 (TensorRT-LLM; vLLM as --max-num-batched-tokens), SGLang
# max_prefill_tokens = isl + 1500, which whole prompts fill: 0.5's schedule_policy.py admits one that fits in what is
# left. The rule's mixed chunks do not reach SGLang: its 0.5.1 template looks for them under another name.
_SLACK_TOKENS = 1500
_SGLANG_CHUNK_TOKENS = 8192
# the same generator, backend_templates/trtllm/extra_engine_args.*: kv_cache_config.free_gpu_memory_fraction
_TRTLLM_MEMORY_RATIO = 0.8
# InferenceMAX, README: RANDOM_RANGE_RATIO 0.8, with these pairs of (ISL, OSL); benchmarks/gptoss_fp4_h100.sh:
# --max-num-seqs $CONC, max-num-batched-tokens 8192, async-scheduling
_RANGE_SPREAD = 0.2
_RANGE_LENGTHS = ((1024, 1024), (1024, 8192), (8192, 1024))
_RANGE_BATCH_TOKENS = 8192
# images that engines publish themselves; NVIDIA's generator deploys nvcr.io/nvidia/ai-dynamo/...
_OWN_IMAGES = ("vllm/", "lmsysorg/", "nvcr.io/nvidia/tensorrt-llm/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """An engine as it was launched, and how far lengths of requests vary.

    Args:
        policy: of the engine.
        length_spread: as in `Workload`.
    """

    policy: Policy
    length_spread: float = 0.0


def launched(
    policy: Policy, *, users: int, batch: int | None, prompt_tokens: int, output_tokens: int, image: str | None
) -> Launch:
    """The launch behind a row of a table.

    Args:
        policy: the engine's defaults, which stay where nothing else is known.
        users: requests in flight.
        batch: largest batch that the row states; NVIDIA's tables do.
        prompt_tokens: nominal.
        output_tokens: nominal.
        image: container that the engine ran in, where the row says.

    >>> from costmodel.serving.policies import policy
    >>> from hardware_profiles.loader import load_device
    >>> rules = policy("trtllm", load_device("h100-sxm"))
    >>> launched(rules, users=8, batch=8, prompt_tokens=2048, output_tokens=128, image=None).policy.batch_tokens
    3556
    """
    if image and image.casefold().startswith(_OWN_IMAGES):
        if (prompt_tokens, output_tokens) not in _RANGE_LENGTHS:
            return Launch(policy=policy)
        narrow = replace(policy, batch_tokens=_RANGE_BATCH_TOKENS, ahead=True) if policy.engine == "vllm" else policy
        return Launch(policy=replace(narrow, requests=users), length_spread=_RANGE_SPREAD)
    if batch is None:
        return Launch(policy=policy)
    if policy.engine == "sglang":
        tokens = prompt_tokens + _SLACK_TOKENS
        whole = tokens < _SGLANG_CHUNK_TOKENS
        return Launch(policy=replace(policy, batch_tokens=tokens, chunks=False) if whole else policy)
    sized = replace(policy, batch_tokens=batch + prompt_tokens + _SLACK_TOKENS)
    return Launch(policy=replace(sized, memory_ratio=_TRTLLM_MEMORY_RATIO) if policy.of_free else sized)
