"""Which options of `simulate` say how requests are decoded, and where?

Types of options, each a line of the verb. Leaves out the others (`app.cli.simulate`) and what becomes of them
(`app.cli.simulate_options`).
"""

from typing import Annotated

import typer

Priorities = Annotated[
    str | None,
    typer.Option("--priorities", help="Shares by priority, lower first, where the file has none: 0:0.2,1:0.8."),
]
Overlapped = Annotated[
    str | None,
    typer.Option("--overlap", help="pearl or specbranch: draft beside the verify pass; faser: verify in parts."),
]
Branches = Annotated[
    int | None, typer.Option("--branches", help="Drafts made at once, with --overlap (specbranch: 2).")
]
Parts = Annotated[int | None, typer.Option("--parts", help="Parts of a verification, with --overlap (faser: 2).")]
Interference = Annotated[
    float | None,
    typer.Option("--interference", help="Share of the shorter concurrent phase on top of the longer, with --overlap."),
]
StopRatio = Annotated[
    float | None, typer.Option("--stop-ratio", help="End drafts where the drafter is less sure than this (level 3).")
]
Ragged = Annotated[
    str | None,
    typer.Option("--ragged", help="Unequal lengths: split (kernels take them), pad, or regroup by length."),
]
GroupRequests = Annotated[
    int | None, typer.Option("--group-requests", help="Most requests padded together; default: everybody.")
]
DecodeBlock = Annotated[
    int | None, typer.Option("--decode-block", help="Tokens of a block, for a decoder that commits whole blocks.")
]
DecodePasses = Annotated[
    int | None, typer.Option("--decode-passes", help="Passes over which a block is committed evenly.")
]
CommitRatio = Annotated[
    float | None,
    typer.Option("--commit-ratio", help="Instead: chance of every open token in each pass, one at least."),
]
DecodeQuery = Annotated[
    int | None, typer.Option("--decode-query", help="Tokens that such a pass computes; default: the block.")
]
ClosingPasses = Annotated[
    int | None, typer.Option("--closing-passes", help="Passes that only store a finished block (0).")
]
FfnDevice = Annotated[
    str | None, typer.Option("--ffn-device", help="Device of feed-forward layers apart; --device has the attention.")
]
FfnTp = Annotated[int | None, typer.Option("--ffn-tp", help="Devices that share every feed-forward layer apart (1).")]
AttentionGroups = Annotated[
    int | None, typer.Option("--attention-groups", help="Groups of --tp devices that share the attention (1).")
]
MicroBatches = Annotated[
    int | None, typer.Option("--micro-batches", help="In flight between attention and feed-forward (3).")
]
FfnLink = Annotated[
    float | None, typer.Option("--ffn-link", help="Bytes per second between the two; default: the devices' links.")
]
FfnLatency = Annotated[float | None, typer.Option("--ffn-latency", help="ms of one message between the two (0).")]
