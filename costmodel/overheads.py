"""What does an engine add to a step beside the passes: scheduling, sampling on the host, draft set-up?

One entry per (engine, method) with its source. Leaves out anything that a pass's own operations already bill.
"""

from dataclasses import dataclass

from costmodel.method import DrafterKind
from hardware_profiles.errors import UnknownNameError


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """Seconds that an engine adds to a step.

    Args:
        engine: engine the numbers belong to.
        versions: versions they were seen on.
        step_s: added to every step, speculative or not.
        draft_s: added to a step that runs a drafter, whatever its length.
        token_s: added per query token of the target's pass (batch and draft tokens alike).
        verify_ratio: added to a speculative step as a share of its verify pass (host lookups).
        spread_ratio: half-width of the 80 % interval of these numbers.
        source: where they come from.
    """

    engine: str
    versions: str
    step_s: float
    draft_s: float = 0.0
    token_s: float = 0.0
    verify_ratio: float = 0.0
    spread_ratio: float = 0.3
    source: str


_SPECDECODE_BENCH = (
    "SpecDecode-Bench simulator predictor.py (github.com/SpecDecode-Bench/simulator@2fdccbd): coefficients its "
    "authors fitted to vLLM, Llama-3.1-8B on one H100, InstructCoder, batch 1 to 64"
)

# The coefficients are 5.886 ms + 21.0 us per query token + KV at full bandwidth + 1.207 ms a step, and 2.135 ms for
# drafting at any length. Against them this model's passes (1 and 64 requests, 1 and 4 query tokens, 180 tokens of
# context) leave 0.73 ms a step, 12.9 us per query token, and 1.05 ms of drafting at K = 3. A test recomputes all
# three. None of the speedups that predictions are scored on entered here.
_VLLM_STEP_S = 0.73e-3
_VLLM_TOKEN_S = 12.9e-6
_VLLM_DRAFT_S = 1.05e-3

BARE = Overhead(engine="none", versions="", step_s=0.0, spread_ratio=0.0, source="no engine: passes alone")

_TABLE: dict[str, dict[str, Overhead]] = {
    "none": {"*": BARE},
    "vllm": {
        "*": Overhead(
            engine="vllm",
            versions="0.10-0.11",
            step_s=_VLLM_STEP_S,
            token_s=_VLLM_TOKEN_S,
            draft_s=_VLLM_DRAFT_S,
            source=_SPECDECODE_BENCH,
        ),
        "ngram": Overhead(
            engine="vllm",
            versions="0.10-0.11",
            step_s=_VLLM_STEP_S,
            token_s=_VLLM_TOKEN_S,
            verify_ratio=0.005875,
            source=_SPECDECODE_BENCH,
        ),
    },
    "sglang": {
        "*": Overhead(
            engine="sglang",
            versions="0.5",
            step_s=0.3e-3,
            draft_s=0.5e-3,
            spread_ratio=0.6,
            source="ASSUMED: the low end of the 0.2 to 1.2 ms seen over engines; SGLang schedules ahead of the GPU",
        )
    },
    "tensorrt-llm": {
        "*": Overhead(
            engine="tensorrt-llm",
            versions="1.x",
            step_s=0.3e-3,
            draft_s=0.4e-3,
            spread_ratio=0.6,
            source="ASSUMED: the low end of the 0.2 to 1.2 ms seen over engines",
        )
    },
    "llama.cpp": {
        "*": Overhead(
            engine="llama.cpp",
            versions="2026",
            step_s=0.2e-3,
            draft_s=0.1e-3,
            spread_ratio=0.6,
            source="ASSUMED: one thread without a Python scheduler",
        )
    },
    "transformers": {
        "*": Overhead(
            engine="transformers",
            versions="4-5",
            step_s=1.2e-3,
            draft_s=1.0e-3,
            spread_ratio=0.6,
            source="ASSUMED: the high end of the 0.2 to 1.2 ms seen over engines, eager Python between passes",
        )
    },
}


def engine_names() -> list[str]:
    """Engines with an overhead entry."""
    return sorted(_TABLE)


def overhead(engine: str, drafter: DrafterKind) -> Overhead:
    """The overhead of a drafter kind in an engine, or the engine's general entry.

    Raises:
        UnknownNameError: no such engine.
    """
    if engine not in _TABLE:
        raise UnknownNameError("engine", engine, engine_names())
    entries = _TABLE[engine]
    return entries.get(drafter, entries["*"])
