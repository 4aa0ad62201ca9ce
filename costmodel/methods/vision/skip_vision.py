"""Skip-Vision: most image tokens skip the feed-forward layers and leave the cache."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import ContextTransform

METHOD = Method(
    slug="skip-vision",
    title="Skip-Vision",
    citation=Citation(
        authors="Zeng, Huang, Ji, Yan",
        title=(
            "Skip-Vision: Efficient and Scalable Acceleration of Vision-Language Models via"
            " Adaptive Token Skipping"
        ),
        year=2025,
        arxiv="2503.21817",
    ),
    group="vision",
    read="abstract",
    target=(ContextTransform(name="skip-vision", kept_ratio=0.4, latest_tokens=64),),
    systems=("Skip-Vision",),
    assumed=(
        "target.kept_ratio: two prompt tokens in five stay",
        "target.latest_tokens: the text behind the image",
        (
            "target: tokens that skip feed-forward layers still attend there; they are priced as"
            " absent"
        ),
    ),
)
