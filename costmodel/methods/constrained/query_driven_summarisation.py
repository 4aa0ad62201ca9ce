"""Query-driven summarisation: a small model behind a search engine, 334 GPUs for 50,000 queries a
second.
"""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="query-driven-summarisation",
    title="Query-driven summarisation",
    citation=Citation(title="Query-driven summarisation"),
    group="constrained",
    read="abstract",
    asked_as=(
        "ask `rooftree capacity` for that rate and latency, with the model and an L20 as files"
    ),
    systems=("Query-driven summarisation (334 L20)",),
)
