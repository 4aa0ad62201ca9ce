"""JSONSchemaBench: what frameworks of constrained decoding cost and cover on ten thousand
schemas.
"""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="jsonschemabench",
    title="JSONSchemaBench",
    citation=Citation(
        authors="Geng et al.",
        title="Generating Structured Outputs from Language Models: Benchmark and Studies",
        year=2025,
        arxiv="2501.10868",
    ),
    group="constrained",
    read="code",
    # guidance-ai/jsonschemabench, README: 9,558 schemas in ten sets
    out_of_scope=(
        "a benchmark of frameworks; what they add to a step is `host_s` of"
        " grammar-constrained-decoding, and tokens that a grammar forces are not foreseen"
    ),
    systems=("JSONSchemaBench overheads",),
)
