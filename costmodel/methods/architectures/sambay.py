"""SambaY: one layer of full attention serves the second half of the model, the rest is
recurrent.
"""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="sambay",
    title="SambaY",
    citation=Citation(
        authors="Ren et al.",
        title="Decoder-Hybrid-Decoder Architecture for Efficient Reasoning with Long Generation",
        year=2025,
        arxiv="2507.06607",
    ),
    group="architectures",
    read="code",
    # microsoft/ArchScale, lit_gpt/config.py, phi4miniflash_d32: widths, heads and windows are those of the
    # shipped model
    asked_as="it is a model: ask `rooftree predict --model phi-4-mini-flash`",
    systems=("SambaY (decoder-hybrid-decoder)",),
    reported=(
        Reported(
            quantity="speedup",
            value=10.0,
            source="arXiv:2507.06607, abstract",
            model="phi-4-mini-flash",
            relative_to="Phi4-mini-Reasoning",
            note="throughput at 2,048 and 32,768 tokens in vLLM, largest",
        ),
    ),
)
