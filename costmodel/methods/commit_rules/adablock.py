"""AdaBlock: a block ends at a delimiter that the model foresees."""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="adablock",
    title="AdaBlock-dLLM",
    citation=Citation(
        authors="Lu, Chen, Karashima, Wang, Fujiki, Fan",
        title="AdaBlock-dLLM: Semantic-Aware Diffusion LLM Inference via Adaptive Block Size",
        year=2025,
        arxiv="2509.26432",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block", commit="threshold", tokens_per_pass=2.9, canvas_tokens=512, full_passes=1
    ),
    systems=("AdaBlock-dLLM",),
    assumed=(
        "refine.tokens_per_pass: a little more than Fast-dLLM; accuracy alone was published",
        "shape.nodes: 32, as a mean",
    ),
)
