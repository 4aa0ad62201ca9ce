"""How does SGLang spell a choice?

Writes the server's flags and, for a schedule, the adaptive config whose slots hold one step count each.
SGLang counts the root among its draft tokens. Its trees are built anew at every step from the drafter's
scores, so a static tree can only be approximated, on request.
"""

import math
from collections.abc import Mapping

from app.exporters.choice import DecodingChoice
from app.exporters.result import Dialect, ExportResult, command_line, json_lines, script
from app.exporters.tree_paths import Path, depth, widest
from app.exporters.versions import releases_for

RELEASES = ("0.5.23",)
DEFAULT_VERSION = "0.5.23"
SCRIPT_FILE = "sglang-serve.sh"
ADAPTIVE_FILE = "sglang-adaptive.json"

ALGORITHMS: Mapping[str, str] = {
    "draft_model": "STANDALONE",
    "sequoia": "STANDALONE",
    "ngram": "NGRAM",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
}
_TAKE_A_SCHEDULE = ("eagle3", "mtp")
_SILENT_REQUESTS = 48
_TRIE_DEPTH = 18  # the engine's default


def export_sglang(
    choice: DecodingChoice,
    *,
    version: str = DEFAULT_VERSION,
    synthetic: bool = False,
    approximate: bool = False,
) -> ExportResult:
    """Write a choice for `sglang.launch_server`.

    Args:
        choice: what to run.
        version: SGLang release.
        synthetic: force the mean acceptance length of `choice.acceptance_by_depth` (for benchmarks).
        approximate: replace a static tree by a dynamic one of the same size and depth.

    Returns:
        The script, and the adaptive config where K depends on the batch size.

    Raises:
        InputError: SGLang cannot express the choice.
    """
    dialect = Dialect(engine="sglang", version=version, releases=releases_for("sglang", version, RELEASES))
    notes: list[str] = []
    files: dict[str, str] = {}
    environment: dict[str, str] = {}
    arguments = ["python3", "-m", "sglang.launch_server", "--model-path", choice.model]
    arguments += ["--tp-size", str(choice.tensor_parallel)]
    if choice.speculates:
        arguments += _running_requests(choice, notes)
        arguments += _speculation(choice, dialect, notes, approximate=approximate)
        if choice.varies:
            files[ADAPTIVE_FILE] = json_lines(adaptive_config(choice))
            arguments += _schedule_flags(choice, dialect, notes)
    else:
        notes.append("nothing is drafted, so no speculative flag is set: the script starts plain decoding")
        if choice.max_batch is not None:
            arguments += ["--max-running-requests", str(choice.max_batch)]
    if synthetic:
        environment = _simulation(choice, dialect, notes)
    header = dialect.header(choice, notes)
    files[SCRIPT_FILE] = script(header, arguments, files=(ADAPTIVE_FILE,), environment=environment)
    return ExportResult(
        engine="sglang",
        version=version,
        checked_against=dialect.releases,
        files=files,
        command=command_line(arguments, environment),
        notes=tuple(notes),
    )


def adaptive_config(choice: DecodingChoice) -> dict[str, dict[str, list[int]]]:
    """The schedule as batch-size slots with one step count each: a list of one cannot adapt away from it."""
    return {str(start): {"candidate_steps": [tokens]} for start, tokens in choice.steps}


def captured_batches(choice: DecodingChoice, largest: int) -> list[int]:
    """Batch sizes to capture as CUDA graphs, so that padding never carries a batch past the end of its range.

    A slot is looked up by the batch size after padding to the next captured size, so the last batch of every
    range must be a captured size itself.
    """
    common = [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, largest + 1, 32)]
    ends = [start - 1 for start, _ in choice.steps[1:]]
    return sorted({size for size in (*common, *ends, largest) if size <= largest})


def _running_requests(choice: DecodingChoice, notes: list[str]) -> list[str]:
    if choice.largest_batch is None:
        notes.append(f"max running requests is {_SILENT_REQUESTS}, what SGLang sets unasked when it speculates")
    return ["--max-running-requests", str(choice.largest_batch or _SILENT_REQUESTS)]


def _speculation(choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool) -> list[str]:
    algorithm = ALGORITHMS.get(choice.method)
    if algorithm is None:
        raise dialect.refusal("method", f"runs {', '.join(ALGORITHMS)}", choice.method)
    dialect.refuse_threshold(choice)
    flags = ["--speculative-algorithm", algorithm]
    if choice.method == "ngram":
        return flags + _ngram(choice, dialect, notes, approximate=approximate)
    if choice.draft_model is not None:
        flags += ["--speculative-draft-model-path", choice.draft_model]
    elif choice.method == "mtp":
        notes.append("the draft weights are looked for in the target's checkpoint; some models need their own path")
    steps, topk = choice.draft_tokens, 1
    if choice.tree_paths is not None:
        if not approximate:
            rule = "builds its trees at run time and cannot load a static one; ask for an approximation"
            raise dialect.refusal("tree", rule, f"{choice.draft_tokens} draft nodes")
        steps, topk = dynamic_shape(choice.tree_paths)
        notes.append(
            f"APPROXIMATION: a dynamic tree of the static tree's size and depth ({steps} steps, top {topk}); "
            "the predicted tokens per step belong to the static tree. With a page size above 1 it needs "
            "flashinfer, fa3 or triton attention"
        )
    flags += ["--speculative-num-steps", str(steps), "--speculative-eagle-topk", str(topk)]
    return [*flags, "--speculative-num-draft-tokens", str(choice.draft_tokens + 1)]


def dynamic_shape(paths: tuple[Path, ...]) -> tuple[int, int]:
    """Steps and top-k of a dynamic tree that can hold a static tree's size at its depth.

    SGLang picks the best-scored nodes out of topk + (steps - 1) * topk**2 candidates.
    """
    steps, topk = depth(paths), max(2, widest(paths))
    while topk + (steps - 1) * topk**2 < len(paths):
        topk += 1
    return steps, topk


def _ngram(choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool) -> list[str]:
    if choice.tree_paths is not None:
        raise dialect.refusal("tree", "NGRAM drafts the branches that its trie holds", f"{choice.draft_tokens} nodes")
    if choice.ngram_min != 1 and not approximate:
        raise dialect.refusal("ngram_min", "NGRAM matches from one token on", choice.ngram_min)
    trie_depth = max(_TRIE_DEPTH, choice.ngram_max + choice.draft_tokens)
    notes.append(
        "NGRAM looks n-grams up in a trie that all requests share, and has no longest match: ngram_max only "
        "deepens the trie"
    )
    if choice.ngram_min != 1:
        notes.append(f"APPROXIMATION: matches shorter than {choice.ngram_min} tokens are drafted from as well")
    return [
        "--speculative-num-draft-tokens", str(choice.draft_tokens + 1),
        "--speculative-ngram-min-bfs-breadth", "1",
        "--speculative-ngram-max-bfs-breadth", "1",
        "--speculative-ngram-max-trie-depth", str(trie_depth),
    ]  # fmt: skip


def _schedule_flags(choice: DecodingChoice, dialect: Dialect, notes: list[str]) -> list[str]:
    if choice.method not in _TAKE_A_SCHEDULE:
        allowed = " and ".join(_TAKE_A_SCHEDULE)
        raise dialect.refusal("schedule", f"only {allowed} follow a schedule", f"{choice.method} {choice.schedule}")
    sizes = captured_batches(choice, choice.largest_batch or _SILENT_REQUESTS)
    notes.append(
        "K is looked up by the batch size after padding to a captured CUDA graph: keep the last batch of "
        "every range among --cuda-graph-bs-decode. Attention data parallelism, two-batch overlap and "
        "multi-layer EAGLE each switch the schedule off"
    )
    flags = ["--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
    return [*flags, "--cuda-graph-bs-decode", *(str(size) for size in sizes)]


def _simulation(choice: DecodingChoice, dialect: Dialect, notes: list[str]) -> dict[str, str]:
    rates = dialect.synthetic_rates(choice)
    if choice.varies or choice.method == "ngram":
        rule = "one simulated acceptance length holds for every step of an EAGLE-like chain of one length"
        raise dialect.refusal("synthetic", rule, f"{choice.method} {choice.schedule}")
    notes.append("synthetic acceptance keeps the mean length alone; the generated text is not the model's")
    mean = 1.0 + math.fsum(rates)
    return {"SGLANG_SIMULATE_ACC_LEN": f"{mean:.6g}", "SGLANG_SIMULATE_ACC_METHOD": "match-expected"}
