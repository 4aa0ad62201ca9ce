"""AI and memory wall: arithmetic grows faster than the memory that feeds it."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="ai-and-memory-wall",
    title="AI and memory wall",
    citation=Citation(
        authors="Gholami et al.", title="AI and Memory Wall", year=2024, arxiv="2403.14123"
    ),
    group="references",
    read="abstract",
    out_of_scope=(
        "an argument, not a system; `rooftree predict --explain` shows which roof a step touches"
    ),
    systems=("AI and Memory Wall (roofline argument)",),
)
