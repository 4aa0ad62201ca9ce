"""Learn2PD: a small trained filter says from the confidences of a block which tokens are final."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="learn2pd",
    title="Learn2PD",
    citation=Citation(
        authors="Bao, Chen, Xu, Shang",
        title=(
            "Learning to Parallel: Accelerating Diffusion Large Language Models via Adaptive"
            " Parallel Decoding"
        ),
        year=2025,
        arxiv="2509.25188",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="learned", tokens_per_pass=22.58, canvas_tokens=1024),
    systems=("Learn2PD",),
    reported=(
        Reported(
            quantity="speedup",
            value=22.58,
            source="arXiv:2509.25188, abstract",
            model="llada-8b",
            data="GSM8K",
            relative_to="llada",
            note="1,024 tokens, largest",
        ),
    ),
    assumed=(
        (
            "refine.tokens_per_pass: the stated speedup, as if fewer passes made all of it; its"
            " canvas is cut where the text ends, too"
        ),
        (
            "refine.commit: its filter reads tokens that are held already, and is no part of a"
            " trace: not replayed"
        ),
    ),
)
