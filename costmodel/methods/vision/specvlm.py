"""SpecVLM: an EAGLE-2-style head that reads a compressed form of the image drafts a dynamic
tree.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="specvlm",
    title="SpecVLM",
    citation=Citation(
        authors="Huang, Yang, Liu, Yin, Li, Ren, Barsoum",
        title="SpecVLM",
        year=2025,
        arxiv="2509.11815",
    ),
    group="vision",
    read="paper",
    draft=(Draft(by="head", layers=1, inputs=2, context_ratio=0.3, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=7, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    systems=("SpecVLM",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_specvlms_order_of_models_and_texts",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.2,
            source="arXiv:2509.11815, tables 1 and 2",
            model="LLaVA-1.5-7B",
            device="MI250",
            batch=1,
            temperature=0.0,
            data="LLaVA-Wild",
            tokens_per_step=3.68,
        ),
        Reported(
            quantity="speedup",
            value=1.93,
            source="arXiv:2509.11815, tables 1 and 2",
            model="LLaVA-1.5-7B",
            device="MI250",
            batch=1,
            temperature=0.0,
            data="MMBench",
            tokens_per_step=3.29,
        ),
    ),
    assumed=(
        "draft.context_ratio: its compressor is chosen per image; three tokens in ten",
        "shape.nodes: 60 with the root",
    ),
)
