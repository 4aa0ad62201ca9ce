"""ViSpec: an EAGLE-2-style head reads a few tokens that an adaptor makes of the image."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="vispec",
    title="ViSpec",
    citation=Citation(
        authors="Kang, Shu, Li, Zhai, Chen",
        title="ViSpec: Accelerating Vision-Language Models with Vision-Aware Speculative Decoding",
        year=2025,
        arxiv="2509.15235",
    ),
    group="vision",
    read="code",
    # KangJialiang/ViSpec, vispec/model/cnets_ours.py: one layer behind two matrices over two vectors,
    # the second for a feature of the image; exp.sh: 30 tokens with the root, three levels behind a first
    draft=(
        Draft(by="head", layers=1, inputs=2, matrices=((1, 2),), context_ratio=0.15, rereads=True),
    ),
    shape=Shape(kind="dynamic_tree", nodes=29, depth=4, width=8, beam=8),
    verify=Verify(rule="fixed_candidates"),
    systems=("ViSpec",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.58,
            source="arXiv:2509.15235, by a summary",
            model="LLaVA-1.6-7B",
            batch=1,
            temperature=0.0,
            data="mean of eight",
            tokens_per_step=3.98,
            note="2.98 without the bonus token",
        ),
        Reported(
            quantity="speedup",
            value=3.22,
            source="arXiv:2509.15235, by a summary",
            model="LLaVA-1.6-7B",
            batch=1,
            temperature=0.0,
            data="COCO captions",
        ),
    ),
    assumed=(
        "draft.context_ratio: 100 tokens of text and a vector or two in place of 576 of the image",
    ),
)
