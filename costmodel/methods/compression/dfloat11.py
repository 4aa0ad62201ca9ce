"""DFloat11: bf16 weights are coded without loss and unpacked before every product."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import WeightTransform
from hardware_profiles.units import GIGA

METHOD = Method(
    slug="dfloat11",
    title="DFloat11",
    citation=Citation(
        authors="Zhang, Sui, Zhong, Chaudhary, Hu, Shrivastava",
        title=(
            "70% Size, 100% Accuracy: Lossless LLM Compression for Efficient GPU Inference via"
            " Dynamic-Length Float"
        ),
        year=2025,
        arxiv="2504.11651",
    ),
    group="compression",
    read="paper",
    target=(
        # sizes are 0.676 to 0.682 of bf16; the rate is fitted to one figure: Qwen3-14B on RTX A5000
        # at batch 1
        WeightTransform(
            name="dfloat11",
            coded_ratio=0.679,
            unpack_bytes_per_s=2.6 * GIGA,
            embedding=True,
            formats=("bf16",),
        ),
    ),
    systems=("DFloat11",),
    reproduced=("tests/costmodel/transforms/test_published.py::test_dfloat11_sizes",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=4.0,
            source="arXiv:2504.11651",
            model="Mistral-Small-3 24B",
            device="a100-sxm-40",
            batch=1,
        ),
    ),
    assumed=(
        (
            "target.unpack_bytes_per_s: fitted; that one figure shows nothing of products and"
            " unpacking apart"
        ),
    ),
)
