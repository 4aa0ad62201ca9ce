"""Make Some Noise: a target tuned on noisy inputs refines a tree of Jacobi drafts beside retrieved
ones.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="make-some-noise",
    title="Make Some Noise",
    citation=Citation(
        authors="Wang, Luo, Wei, Liu, Zhu, Zhang, Yang, Xu, Che",
        title=(
            "Make Some Noise: Unlocking Language Model Parallel Inference Capability through Noisy"
            " Training"
        ),
        year=2024,
        arxiv="2406.17404",
    ),
    group="heads",
    read="code",
    exact_when="temperature 0, against the tuned target",
    own_weights=True,
    draft=(Draft(by="rows"),),
    # wyxstriker/MakeSomeNoiseInference, model/noise_forward.py: 63 nodes as of Medusa and a retrieved
    # chain of five; rejected nodes are the noise that drafts for the next step
    shape=Shape(kind="static_tree", nodes=68, depth=5),
    verify=Verify(rule="match"),
    systems=("Make Some Noise",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.3,
            source="arXiv:2406.17404, abstract",
            data="Spec-Bench",
            note="2.3 to 2.7 are stated",
        ),
    ),
)
