"""SARATHI: prompts are cut into chunks, and requests that decode ride on the passes over them."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="sarathi",
    title="SARATHI",
    citation=Citation(
        title="SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked Prefills",
        year=2023,
        arxiv="2308.16369",
    ),
    group="parallelism",
    read="paper",
    asked_as=(
        "ask `rooftree simulate`, whose scheduler chunks prompts so (scheduler.chunked_prefill)"
    ),
    systems=("SARATHI",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_schedules_of_chunked_prompts",
    ),
    reported=(
        Reported(
            quantity="token_s",
            value=0.01249,
            source="arXiv:2308.16369, by a note",
            model="LLaMA-13B",
            device="RTX A6000",
            dtype="fp16",
            batch=4,
            context=1024,
            note="decoding alone",
        ),
        Reported(
            quantity="token_s",
            value=0.0012,
            source="arXiv:2308.16369, by a note",
            model="LLaMA-13B",
            device="RTX A6000",
            dtype="fp16",
            batch=4,
            context=1024,
            note="three requests that ride on a chunk of 1,021 tokens",
        ),
    ),
)
