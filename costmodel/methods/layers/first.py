"""FiRST: routers look at the prompt and choose the layers that all tokens after it skip."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import LayerSchedule

METHOD = Method(
    slug="first",
    title="FiRST",
    citation=Citation(
        authors="Jain, Sharma, Mukherjee, Pal",
        title=(
            "FiRST: Finetuning Router-Selective Transformers for Input-Adaptive Latency Reduction"
        ),
        year=2024,
        arxiv="2410.12513",
    ),
    group="layers",
    read="abstract",
    own_weights=True,
    target=(LayerSchedule(name="first", shares=(1.0, 0.7, 0.7, 1.0), keeps_cache=False),),
    systems=("FiRST",),
    assumed=(
        "target.shares: three in ten of the middle layers are skipped",
        (
            "target.keeps_cache: off; the prompt decides, so skipped layers hold nothing of what"
            " follows"
        ),
    ),
)
