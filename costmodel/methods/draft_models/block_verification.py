"""Block verification: a chain from a draft model is judged as a whole, and more of it stays than
token by token.
"""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="block-verification",
    title="Block verification",
    citation=Citation(
        authors="Sun, Mendlovic, Leviathan, Aharoni, Ro, Beirami, Suresh",
        title="Block Verification Accelerates Speculative Decoding",
        year=2024,
        arxiv="2403.10444",
    ),
    group="draft models",
    read="code",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain"),
    # vllm-project/vllm, vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py: running ratios, and
    # the mass that is left one token later, decide the longest prefix; greedy tokens one by one
    verify=Verify(rule="block"),
    engines={"vllm": "block_verification"},
)
