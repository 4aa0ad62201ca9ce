"""DFlash2 with dynamic verification: the batch verifies the likeliest prefixes of its blocks, as
far as a profiled table of costs says that it pays.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="dflash-2",
    title="DFlash2 with dynamic verification",
    citation=Citation(
        authors="",
        title="Dynamic verification for DFlash2",
        year=2026,
        url="https://github.com/sgl-project/sglang/pull/36136",
    ),
    group="parallel drafters",
    read="abstract",
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="chain", nodes=7),
    stop=Stop(rule="cost"),
    verify=Verify(rule="token_rejection"),
    reported=(
        Reported(
            quantity="speedup",
            value=1.20,
            source="sglang pull request 36136",
            batch=32,
            data="MT-bench",
            relative_to="the same drafter verified whole",
            note="4,101 against 3,411 tokens/s; 0.96 at 1 request, 1.11 at 12",
        ),
    ),
    assumed=(
        "draft: DFlash's layers; its convolutions and its selector of candidates cost nothing",
        "shape.nodes: blocks of 8 with the known token, as a drafter's card names them",
        "verify: as DFlash",
    ),
)
