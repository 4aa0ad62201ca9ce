"""What is known beforehand of the engines whose servers are asked: one record an engine.

How one names itself, where its counters are and which importer reads them, what switches counters
and drafts on, and whether events tell steps. Leaves out the form of its events
(`real_runs.servers.events`) and what it says of its drafter (`real_runs.servers.speculation`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["vllm", "sglang", "tensorrt-llm", "llama.cpp", "openai"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedEngine:
    """An engine whose server is asked over its address.

    Attributes:
        owner: of the models that `/v1/models` lists; empty where it is any other.
        counter_paths: where its counters may be published, in the order in which they are tried.
        counters_format: importer that reads what they say of drafts; empty where none does.
        counters_option: what publishes them; empty where they always are.
        drafts_option: what it is started with to draft; empty where nobody has to know.
        steps_known_by: what tells the steps of an answer; empty where nothing does.
    """

    owner: str = ""
    counter_paths: tuple[str, ...] = ("/metrics",)
    counters_format: str = ""
    counters_option: str = ""
    drafts_option: str = ""
    steps_known_by: str = ""


ENGINES: Mapping[Kind, ServedEngine] = {
    "vllm": ServedEngine(
        owner="vllm",
        counters_format="vllm-metrics",
        drafts_option="--speculative-config",
        steps_known_by="the tokens of vLLM's events",
    ),
    "sglang": ServedEngine(
        owner="sglang",
        counters_format="sglang-metrics",
        counters_option="--enable-metrics",
        drafts_option="--speculative-algorithm",
        steps_known_by="the tokens of SGLang's events",
    ),
    "tensorrt-llm": ServedEngine(
        owner="tensorrt_llm",
        counter_paths=("/prometheus/metrics", "/metrics"),
        counters_format="tensorrt-llm-metrics",
        counters_option="return_perf_metrics: true",
    ),
    "llama.cpp": ServedEngine(
        owner="llamacpp",
        counters_format="llama-cpp-metrics",
        counters_option="--metrics",
        drafts_option="--spec-type, or --spec-draft-model MODEL",
        steps_known_by="the running counts of drafts in llama.cpp's events",
    ),
    "openai": ServedEngine(),
}


def kind_of(owner: str) -> Kind:
    """The engine that names itself so; `openai` for any other with that interface."""
    return next((kind for kind in KINDS if ENGINES[kind].owner == owner != ""), "openai")
