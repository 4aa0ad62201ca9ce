"""Pruning All-Rounder: a router lets image tokens leave by layer and groups the rest."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import ContextTransform

METHOD = Method(
    slug="pruning-all-rounder",
    title="Pruning All-Rounder",
    citation=Citation(
        authors="Suo, Ma, Sun, Wu, Wang, Zhang",
        title=(
            "Pruning All-Rounder: Rethinking and Improving Inference Efficiency for Large Vision"
            " Language Models"
        ),
        year=2024,
    ),
    group="vision",
    read="abstract",
    target=(ContextTransform(name="pruning-all-rounder", kept_ratio=0.5, latest_tokens=64),),
    systems=("Pruning All-Rounder",),
    assumed=(
        "target.kept_ratio: half of the prompt, as a mean over layers",
        "target.latest_tokens: the text behind the image",
    ),
)
