"""ARMOR: 2:4 weights between two block-diagonal matrices."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="armor",
    title="ARMOR",
    citation=Citation(title="ARMOR"),
    group="compression",
    read="abstract",
    target=(WeightTransform(name="armor", kept_ratio=0.55, index_bits=2.0, skips_zeros=True),),
    systems=("ARMOR",),
    assumed=(
        (
            "target.kept_ratio: half, and a twentieth for the block-diagonal matrices, whose"
            " products are not billed apart"
        ),
    ),
)
