"""PHD-Transformer: every token passes several times in parallel, and only its own entry stays in
the cache.
"""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="phd-transformer",
    title="PHD-Transformer",
    citation=Citation(
        authors="Wu, Yan, Zhang, Lu, Zeng, Wang, Zhou",
        title="Efficient Pretraining Length Scaling",
        year=2025,
        arxiv="2504.14992",
    ),
    group="architectures",
    read="abstract",
    own_weights=True,
    advance=Samples(rows=2.0),
    systems=("PHD-Transformer",),
    assumed=("advance.rows: every token twice",),
)
