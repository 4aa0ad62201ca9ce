"""TensorRT-LLM's speculation gate: drafting ends for good once too small a share of the draft tokens
was accepted over so many iterations.
"""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="tensorrt-llm-gate",
    title="TensorRT-LLM's speculation gate",
    citation=Citation(
        authors="",
        title="tensorrt_llm/_torch/speculative/speculation_gate.py",
        year=2026,
        url="https://github.com/NVIDIA/TensorRT-LLM",
    ),
    group="serving",
    read="code",
    asked_as="it switches another method off: ask `rooftree simulate --policies tensorrt-llm`",
)
