"""EOSER and ASS: ends of text are held back, and every pass commits twice as many tokens as the
last.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="eoser-ass",
    title="EOSER and ASS",
    citation=Citation(
        authors="Yang, Chen, Hu, Shao",
        title=(
            "Taming Masked Diffusion Language Models via Consistency Trajectory Reinforcement"
            " Learning with Fewer Decoding Step"
        ),
        year=2025,
        arxiv="2509.23924",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(forward="full", commit="doubling", tokens_per_pass=29.0, canvas_tokens=256),
    systems=("EOSER / ASS",),
    assumed=("refine.tokens_per_pass: 256 tokens in nine passes of 1, 2, 4 and so on",),
)
