"""How does SGLang spell a configuration?

Writes the server's flags and, for a schedule, the adaptive config whose slots hold one step count
each. SGLang counts the root among its draft tokens. Its trees are built anew at every step from the
drafter's scores, so a static tree can only be approximated, on request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from app.exporters.cache_length import cache_length
from app.exporters.checkpoints import DRAFT_PLACEHOLDER
from app.exporters.dialect import Dialect, above_one
from app.exporters.result import HEAD_PORT, NODE_RANK, Written, command_line, json_lines, script
from app.exporters.step_table import step_table
from app.exporters.tree_paths import Path, depth, draft_paths, widest
from app.exporters.untrained_head import HEAD_FILE, HEAD_FOLDER, HEAD_NOTE, untrained_head
from costmodel.configuration import DecodingConfiguration

SCRIPT_FILE = "sglang-serve.sh"
ADAPTIVE_FILE = "sglang-adaptive.json"
STEP_FILE = "sglang-dspark-steps.json"

_SILENT_REQUESTS = 48
_DOWN = -0.25
_CONTEXT = 1024  # cached tokens of a request where none are stated
_TRIE_DEPTH = 18  # the engine's default
WEIGHTS = {
    "fp32": ("--dtype", "float32"),
    "bf16": ("--dtype", "bfloat16"),
    "fp16": ("--dtype", "float16"),
    "fp8": ("--quantization", "fp8"),
}
_CACHE: Mapping[str, tuple[str, ...]] = {
    "bf16": ("--kv-cache-dtype", "bf16"),
    "fp16": (),
    "fp8": ("--kv-cache-dtype", "fp8_e4m3"),
    "fp4": ("--kv-cache-dtype", "nvfp4"),
}


def export_sglang(
    chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
) -> Written:
    """The script for `sglang.launch_server`, and the adaptive config where K depends on the batch
    size.

    Synthetic acceptance forces the mean length of `chosen.acceptance_by_depth`; `approximate`
    replaces a static tree by a dynamic one of the same size and depth. Arguments and errors as of
    `app.exporters.registry.Exporter`.
    """
    notes = dialect.limits(chosen)
    files: dict[str, str] = {}
    environment: dict[str, str] = {}
    arguments = [
        "python3",
        "-m",
        "sglang.launch_server",
        "--model-path",
        dialect.target(chosen, WEIGHTS, notes),
    ]
    arguments += deployment_flags(chosen, dialect, notes)
    if chosen.max_batch is not None:
        arguments += ["--max-running-requests", str(chosen.max_batch)]
    if chosen.token_budget is not None:
        arguments += ["--chunked-prefill-size", str(chosen.token_budget)]
    if chosen.speculates:
        _check_spread(chosen, dialect)
        if chosen.max_batch is None:
            notes.append(_silent_limit(chosen))
        arguments += _speculation(chosen, dialect, notes, approximate=approximate)
        if chosen.varies or chosen.stop.rule == "ema":
            files[ADAPTIVE_FILE] = json_lines(adaptive_config(chosen))
            arguments += _schedule_flags(chosen, notes)
        if chosen.stop.rule == "cost":
            files[STEP_FILE] = _step_file(chosen, dialect, notes)
            arguments += ["--speculative-dspark-sps-table-path", STEP_FILE]
            environment["SGLANG_RAGGED_VERIFY_MODE"] = "compact"
    else:
        notes.append(
            "nothing is drafted, so no speculative flag is set: the script starts plain decoding"
        )
    if synthetic:
        environment |= _simulation(chosen, dialect, notes)
        if DRAFT_PLACEHOLDER in arguments and (head := untrained_head(chosen)) is not None:
            files[HEAD_FILE] = head
            arguments[arguments.index(DRAFT_PLACEHOLDER)] = HEAD_FOLDER
            notes[:] = [*(note for note in notes if DRAFT_PLACEHOLDER not in note), HEAD_NOTE]
        if "--speculative-draft-model-path" in arguments:
            arguments += ["--speculative-draft-load-format", "dummy"]
            notes.append(
                "the drafter's weights are not read: a folder with its config.json is enough"
            )
    header = dialect.header(chosen, notes)
    files[SCRIPT_FILE] = script(
        header, arguments, files=(ADAPTIVE_FILE, STEP_FILE, HEAD_FOLDER), environment=environment
    )
    return Written(
        files=files,
        command=command_line(arguments, environment),
        notes=notes,
    )


def deployment_flags(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]
) -> list[str]:
    """Flags of devices, nodes, formats and lengths.

    Args:
        chosen: what to run.
        dialect: the engine at its release.
        notes: what a reader must know is added here.

    Raises:
        InputError: a format or a split over devices that the release does not have.
    """
    where = chosen.deployment
    # tensor parallelism counts the copies of attention, too
    sizes = {
        "--attn-dp-size": where.data_parallel,
        "--ep-size": where.expert_parallel,
        "--pp-size": where.pipeline_parallel,
    }
    flags = ["--tp-size", str(where.tensor_parallel * where.data_parallel), *above_one(sizes)]
    if (nodes := dialect.nodes(chosen)) > 1:
        flags += ["--nnodes", str(nodes), "--node-rank", NODE_RANK, "--dist-init-addr", HEAD_PORT]
        notes.append(f"start it on each of {nodes} nodes")
    flags += dialect.weight_format(chosen, WEIGHTS) or ()
    flags += dialect.cache_format(chosen, _CACHE) or ()
    if chosen.max_length is not None:
        flags += ["--context-length", str(chosen.max_length)]
    elif (held := cache_length(chosen, dialect.engine)) is not None:
        notes.append(f"{held.words}; SGLang starts and refuses longer ones")
    return flags


def _check_spread(chosen: DecodingConfiguration, dialect: Dialect) -> None:
    """Refuse what the server refuses of drafting on several groups of devices."""
    where = chosen.deployment
    if where.pipeline_parallel > 1:
        rule = "drafts on one pipeline stage only, unless it is a prefill node"
        raise dialect.refusal("pipeline_parallel", rule, where.pipeline_parallel)
    if where.data_parallel > 1 and (name := dialect.drafting(chosen).name) in (
        "NGRAM",
        "STANDALONE",
    ):
        raise dialect.refusal(
            "data_parallel",
            f"{name} does not draft under attention data parallelism",
            chosen.method,
        )
    if where.data_parallel > 1 and chosen.varies:
        raise dialect.refusal(
            "schedule", "attention data parallelism switches a schedule off", chosen.schedule
        )


def adaptive_config(chosen: DecodingConfiguration) -> dict[str, object]:
    """The schedule as batch-size slots: with one step count each, from which a slot cannot adapt
    away; where drafts follow what was accepted lately, with every other one up to the longest.

    Thresholds are those that SGLang ships: down a quarter of a token late, up at once.
    """
    if chosen.stop.rule != "ema":
        return {str(start): {"candidate_steps": [tokens]} for start, tokens in chosen.steps}
    weight = {"ema_alpha": chosen.stop.at} if chosen.stop.at else {}
    slots = {
        str(start): {
            "candidate_steps": sorted({*range(1, tokens, 2), tokens}),
            "up_hysteresis": 0.0,
            "down_hysteresis": _DOWN,
        }
        for start, tokens in chosen.steps or ((1, chosen.draft_tokens),)
    }
    return {**slots, **weight}


def captured_batches(chosen: DecodingConfiguration, largest: int) -> list[int]:
    """Batch sizes to capture as CUDA graphs, so that padding never carries a batch past the end of
    its range.

    A slot is looked up by the batch size after padding to the next captured size, so the last batch
    of every range must be a captured size itself.
    """
    common = [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, largest + 1, 32)]
    ends = [start - 1 for start, _ in chosen.steps[1:]]
    return sorted({size for size in (*common, *ends, largest) if size <= largest})


def _silent_limit(chosen: DecodingConfiguration) -> str:
    words = (
        f"SGLang runs at most {_SILENT_REQUESTS} requests at once when it speculates and"
        " --max-running-requests"
    )
    largest = chosen.largest_batch or 0
    return f"{words} is not set" + (
        f"; the configuration is for batches to {largest}" if largest > _SILENT_REQUESTS else ""
    )


def _speculation(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool
) -> list[str]:
    name = dialect.name(chosen)
    flags = ["--speculative-algorithm", dialect.drafting(chosen).name]
    if name == "ngram":
        return flags + _ngram(chosen, dialect, notes, approximate=approximate)
    if (draft := dialect.draft(chosen, notes)) is not None:
        flags += ["--speculative-draft-model-path", draft]
    elif name == "mtp":
        notes.append(
            "the draft weights are looked for in the target's checkpoint; some models need their"
            " own path"
        )
    if name == "dspark":
        return [*flags, "--speculative-dspark-block-size", str(chosen.draft_tokens)]
    if name == "dflash":
        flags += ["--speculative-dflash-block-size", str(chosen.draft_tokens + 1)]
        return flags + (["--enable-dp-lm-head"] if chosen.deployment.data_parallel > 1 else [])
    steps, topk = chosen.draft_tokens, 1
    if (depth_and_width := dialect.dynamic_numbers(chosen)) is not None:
        steps, topk = depth_and_width
    if (paths := draft_paths(chosen)) is not None:
        steps, topk = dynamic_shape(paths)
        notes.append(
            f"APPROXIMATION: a dynamic tree of the static tree's size and depth ({steps} steps, top"
            f" {topk}); the predicted tokens per step belong to the static tree. With a page size"
            " above 1 it needs flashinfer, fa3 or triton attention"
        )
    flags += ["--speculative-num-steps", str(steps), "--speculative-eagle-topk", str(topk)]
    return [*flags, "--speculative-num-draft-tokens", str(chosen.draft_tokens + 1)]


def dynamic_shape(paths: tuple[Path, ...]) -> tuple[int, int]:
    """Steps and top-k of a dynamic tree that can hold a static tree's size at its depth.

    SGLang picks the best-scored nodes out of topk + (steps - 1) * topk**2 candidates.
    """
    steps, topk = depth(paths), max(2, widest(paths))
    while topk + (steps - 1) * topk**2 < len(paths):
        topk += 1
    return steps, topk


def _ngram(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool
) -> list[str]:
    if chosen.ngram_min != 1 and not approximate:
        raise dialect.refusal("ngram_min", "NGRAM matches from one token on", chosen.ngram_min)
    trie_depth = max(_TRIE_DEPTH, chosen.ngram_max + chosen.draft_tokens)
    notes.append(
        "NGRAM looks n-grams up in a trie that all requests share, and has no longest match:"
        " ngram_max only deepens the trie"
    )
    if chosen.ngram_min != 1:
        notes.append(
            f"APPROXIMATION: matches shorter than {chosen.ngram_min} tokens are drafted from as"
            " well"
        )
    return [
        "--speculative-num-draft-tokens",
        str(chosen.draft_tokens + 1),
        "--speculative-ngram-min-bfs-breadth",
        "1",
        "--speculative-ngram-max-bfs-breadth",
        "1",
        "--speculative-ngram-max-trie-depth",
        str(trie_depth),
    ]


def _step_file(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> str:
    """The seconds of a step by requests and verified tokens, by our own model.

    Raises:
        InputError: no device is named.
    """
    if not chosen.deployment.device:
        rule = "weighs seconds of steps, which depend on the device"
        raise dialect.refusal("deployment.device", rule, chosen.deployment.device)
    requests = chosen.max_batch or chosen.largest_batch or _SILENT_REQUESTS
    context = chosen.context if chosen.context is not None else _CONTEXT
    table = step_table(chosen, most_requests=requests, context=context)
    notes.append(
        f"{STEP_FILE} holds predicted seconds for up to {requests} requests of {context:,} cached"
        f" tokens; a sum by requests and by tokens is off by at most {table.worst_ratio:.1%} of"
        " the prediction. SGLang's own profiler (sglang.benchmark.dspark_sps_profiler) measures"
        " it; the drafter needs a confidence head"
    )
    return json_lines(table.file())


def _schedule_flags(chosen: DecodingConfiguration, notes: list[str]) -> list[str]:
    sizes = captured_batches(chosen, chosen.max_batch or _SILENT_REQUESTS)
    notes.append(
        "K is looked up by the batch size after padding to a captured CUDA graph: keep the last"
        " batch of every range among --cuda-graph-bs-decode. Attention data parallelism, two-batch"
        " overlap and multi-layer EAGLE each switch the schedule off"
    )
    flags = ["--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
    return [*flags, "--cuda-graph-bs-decode", *(str(size) for size in sizes)]


def _simulation(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]
) -> dict[str, str]:
    rates = dialect.synthetic_rates(chosen)
    if chosen.varies:
        rule = (
            "one simulated acceptance length holds for every step of an EAGLE-like chain of one"
            " length"
        )
        raise dialect.refusal("synthetic", rule, f"{chosen.method} {chosen.schedule}")
    notes.append(
        "synthetic acceptance keeps the mean length alone; the generated text is not the model's"
    )
    mean = 1.0 + math.fsum(rates)
    return {
        "SGLANG_SIMULATE_ACC_LEN": f"{mean:.6g}",
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
    }
