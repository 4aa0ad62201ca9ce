"""ParallelBench: how quality falls as masked models commit more tokens a pass."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="parallelbench",
    title="ParallelBench",
    citation=Citation(
        authors="Kang et al.",
        title="ParallelBench: Understanding the Trade-offs of Parallel Decoding in Diffusion LLMs",
        year=2025,
        arxiv="2510.04767",
    ),
    group="references",
    read="code",  # furiosa-ai/ParallelBench, eval.py
    out_of_scope="a benchmark of quality without a rule of decoding or a time",
    systems=("ParallelBench trade-off",),
)
