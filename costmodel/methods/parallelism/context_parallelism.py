"""Context parallelism: every device holds a part of the text, and keys or queries go round a
ring.
"""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="context-parallelism",
    title="Context parallelism",
    citation=Citation(
        title="Context Parallelism for Scalable Million-Token Inference",
        year=2024,
        arxiv="2411.01783",
    ),
    group="parallelism",
    read="paper",
    deployment={"context_parallel": 8},
    systems=("Context Parallelism",),
    reproduced=("tests/costmodel/test_published_curves.py::test_context_parallelism_curves",),
    reported=(
        Reported(
            quantity="prompt_s",
            value=42.01,
            source="arXiv:2411.01783",
            model="llama-3.1-405b",
            device="h100-sxm",
            devices=8,
            batch=1,
            context=131_072,
            note="one node; feed-forward layers in fp8",
        ),
        Reported(
            quantity="prompt_s",
            value=21.042,
            source="arXiv:2411.01783",
            model="llama-3.1-405b",
            device="h100-sxm",
            devices=16,
            batch=1,
            context=131_072,
            note="two parts of the text",
        ),
    ),
    assumed=("deployment: eight devices",),
)
