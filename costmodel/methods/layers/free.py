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
    read="code",
    # raymin0223/fast_robust_early_exit, scripts: six of T5-large's 24 decoder layers, which tokens leave
    # at a probability of 0.9; util/additional_args.py: deep rows of tokens that left run with the next
    target=(LayerSchedule(name="free", shares=(1.0, 0.6, 0.6, 0.6), together=False),),
    systems=("FREE early exit",),
    assumed=(
        "target.shares: 40 % of the tokens leave behind the shallow quarter",
        (
            "target.keeps_cache: deep keys and values of tokens that left are made, but their rows"
            " are not priced"
        ),
    ),
)
