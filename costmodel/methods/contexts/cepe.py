"""CEPE: a small encoder reads a long text in chunks; layers of the target attend to its states."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import ContextTransform

METHOD = Method(
    slug="cepe",
    title="CEPE",
    citation=Citation(
        authors="Yen, Gao, Chen",
        title="Long-Context Language Modeling with Parallel Context Encoding",
        year=2024,
        arxiv="2402.16617",
    ),
    group="contexts",
    read="code",
    own_weights=True,
    # princeton-nlp/CEPE, configs/test_ab_128k_prevdoc_496x_4096: 496 chunks of 256 tokens are encoded,
    # 4,096 read; configs/mlm_config.json: 24 layers of width 1,024 beside 32 of 4,096
    target=(
        ContextTransform(name="cepe", kept_ratio=1 / 6, latest_tokens=4096, encoder_ratio=0.06),
    ),
    systems=("CEPE",),
    reported=(
        Reported(
            quantity="speedup",
            value=10.0,
            source="arXiv:2402.16617, abstract",
            model="llama-2-7b",
            context=131_072,
            note="throughput",
        ),
        Reported(
            quantity="bytes_ratio",
            value=0.16666666666666666,
            source="arXiv:2402.16617, abstract",
            note="of memory",
        ),
    ),
    assumed=(
        (
            "target.kept_ratio: of the cache, as of memory; cross-attention, whose keys and values its"
            " code makes anew in every pass, is priced as attention to so many"
        ),
    ),
)
