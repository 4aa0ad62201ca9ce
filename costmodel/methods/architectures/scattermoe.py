"""ScatterMoE: products of experts without padding and copies of their rows."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="scattermoe",
    title="ScatterMoE",
    citation=Citation(
        authors="Tan, Shen, Panda, Courville",
        title="Scattered Mixture-of-Experts Implementation",
        year=2024,
        arxiv="2403.08245",
    ),
    group="architectures",
    read="code",
    # shawntan/scattermoe, README and scattermoe/kernels
    out_of_scope=(
        "a kernel library measured in training; kernels of experts here are those timed in serving"
        " engines"
    ),
    systems=("ScatterMoE",),
)
