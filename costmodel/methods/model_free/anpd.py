"""ANPD: n-grams of the text so far, of adaptive length, propose the next tokens."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="anpd",
    title="ANPD",
    citation=Citation(
        authors="Ou, Chen, Tian",
        title="Lossless Acceleration of Large Language Model via Adaptive N-gram Parallel Decoding",
        year=2024,
        arxiv="2404.08698",
    ),
    group="model free",
    read="code",
    exact_when="temperature 0",
    # oujieww/ANPD, base_ngram.py: counts of all n-grams up to three tokens, the longest first
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="match"),
    systems=("ANPD",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.67,
            source="arXiv:2404.08698, abstract",
            model="LLaMA and tuned variants",
            note="largest",
        ),
    ),
    assumed=(
        "draft: a step without a match takes one token; the module then proposes token 1",
        "shape.nodes: searched; the decoding loop is not in the repository",
    ),
)
