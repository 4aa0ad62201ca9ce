"""BACD: the threshold follows the confidence of what the block has committed so far."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="bacd",
    title="BACD, and block sizes by phase",
    citation=Citation(title="BACD and TCCF, of TDAR", year=2026, arxiv="2602.09555"),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=16),
    refine=Refine(
        forward="block",
        commit="running_mean",
        tokens_per_pass=5.07,
        canvas_tokens=16,
        closing_passes=1,
    ),
    systems=("BACD / TCCF",),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=5.07,
            source="README of LuLuLuyi/TDAR",
            model="TDAR-8B",
            data="AIME24",
            note="1.88 for MATH500",
        ),
        Reported(
            quantity="tokens_per_step",
            value=2.68,
            source="README of LuLuLuyi/TDAR",
            model="TDAR-8B",
            data="AMC23",
            note="with block sizes by phase",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: of AIME24; it depends on the text",
        "shape.nodes: blocks of 16; the answer after the reasoning is written in blocks of one",
    ),
)
