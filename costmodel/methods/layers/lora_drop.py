"""LoRA-Drop: five layers of eight run every fifth step only, low-rank products in between."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import LayerSchedule

METHOD = Method(
    slug="lora-drop",
    title="LoRA-Drop",
    citation=Citation(
        authors="Rajabzadeh, Dialameh, Park, Kim, Kwon",
        title="LoRA-Drop: Temporal LoRA Decoding for Efficient LLM Inference",
        year=2026,
        arxiv="2601.02569",
    ),
    group="layers",
    read="code",
    # hosseinbv/LoRA-Drop, modeling_qwen2_lora_drop.py: rank 8; its defaults are three layers of four, in
    # three steps of four
    target=(
        LayerSchedule(
            name="lora-drop",
            shares=(1.0, 0.2, 0.2, 1.0, 0.2, 0.2, 0.2, 1.0),
            keeps_cache=False,
            substitute_rank=8,
        ),
    ),
    systems=("LoRA-Drop",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.6,
            source="arXiv:2601.02569, abstract",
            note="throughput, largest",
        ),
    ),
    assumed=(
        (
            "target.shares: layers and period that save half of the cache, of which 45 to 55 % are"
            " stated; the defaults of its code save 56 %"
        ),
    ),
)
