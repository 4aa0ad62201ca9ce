"""DINGO: a dynamic programme finds the likeliest tokens of a masked block that an automaton
accepts.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="dingo",
    title="DINGO",
    citation=Citation(
        authors="Suresh, Banerjee, Ugare, Misailovic, Singh",
        title="DINGO: Constrained Inference for Diffusion LLMs",
        year=2025,
        arxiv="2505.23061",
    ),
    group="constrained",
    read="abstract",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="static", tokens_per_pass=1.0, canvas_tokens=256),
    host_s=5e-3,
    systems=("DINGO",),
    assumed=(
        "host_s: five milliseconds a pass for block, states and vocabulary",
        "refine: the static schedule of LLaDA",
    ),
)
