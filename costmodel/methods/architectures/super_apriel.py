"""Super Apriel: a checkpoint whose layers can each be attention, a window or recurrent."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="super-apriel",
    title="Super Apriel",
    citation=Citation(
        authors="SLAM Labs: Ostapenko et al.",
        title="Super Apriel: One Checkpoint, Many Speeds",
        year=2026,
        arxiv="2604.19877",
    ),
    group="architectures",
    read="paper",
    asked_as=(
        "build an architecture with the chosen layers (costmodel.architectures), as its test does"
    ),
    systems=("Super Apriel",),
    reproduced=(
        "tests/costmodel/transforms/test_published.py::test_super_apriel_gains_of_hybrids_at_the_largest_batch",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.9,
            source="arXiv:2604.19877, by a summary",
            model="Super Apriel 15B",
            device="h100-sxm",
            dtype="bf16",
            context=32_768,
            relative_to="attention in all layers",
            note="at the largest batch",
        ),
        Reported(
            quantity="speedup",
            value=10.7,
            source="arXiv:2604.19877, by a summary",
            model="Super Apriel 15B",
            device="h100-sxm",
            dtype="bf16",
            context=32_768,
            relative_to="attention in all layers",
            note="at the largest batch",
        ),
    ),
)
