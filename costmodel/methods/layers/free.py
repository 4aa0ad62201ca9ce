"""FREE: tokens that are sure leave behind a shallow part; the deep part runs for the others."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import LayerSchedule

METHOD = Method(
    slug="free",
    title="FREE",
    citation=Citation(
        authors="Bae, Ko, Song, Yun",
        title=(
            "Fast and Robust Early-Exiting Framework for Autoregressive Language Models with"
            " Synchronized Parallel Decoding"
        ),
        year=2023,
        arxiv="2310.05424",
    ),
    group="layers",
    read="abstract",
    target=(LayerSchedule(name="free", shares=(1.0, 0.6, 0.6, 0.6), together=False),),
    systems=("FREE early exit",),
    assumed=(
        "target.shares: a shallow quarter, which 40 % of the tokens leave",
        (
            "target.keeps_cache: deep keys and values of tokens that left are made, but their rows"
            " are not priced"
        ),
    ),
)
