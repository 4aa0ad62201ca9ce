"""Is the replay of masked blocks compiled before somebody asks for it?

The first replay after an installation compiles for some fifteen seconds; what it makes is kept on
disk. A process of its own, which waits for everything else, does so when the server starts. Leaves
out whose turn it is afterwards.
"""

import contextlib
import os
import subprocess
from pathlib import Path

from traces import replay

_SOURCE = Path(replay.__path__[0]) / "confidence" / "compiled_grid.py"
_LOOP = "walk_prompt"


def is_compiled(source: Path = _SOURCE) -> bool:
    """Whether the compiled loop lies beside its source, and is not older."""
    kept = list((source.parent / "__pycache__").glob(f"{source.stem}.{_LOOP}-*.nbc"))
    return bool(kept) and max(each.stat().st_mtime for each in kept) >= source.stat().st_mtime


def compiling(python: str) -> "subprocess.Popen[bytes] | None":
    """Start compiling in a process of its own; None where that was done.

    Args:
        python: interpreter.
    """
    if is_compiled():
        return None
    words = [python, "-P", "-m", "app.dashboard.precompile"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def compile_replays() -> None:
    """Replay a policy on a shipped recording, alone and in a grid, which compiles what all replays
    run.
    """
    from traces.kinds.refine_policy import RefinePolicy
    from traces.library import shipped_confidence
    from traces.replay.confidence.anchors import pooled
    from traces.replay.confidence.grid import replay_policies
    from traces.replay.confidence.walk import replay_policy
    from traces.storage.confidence_file import read_confidence

    trace = read_confidence(shipped_confidence()[0])
    recorded, states = trace.policies[0], pooled(trace)
    usual = RefinePolicy(
        commit="threshold",
        at={"confidence": 0.6123},
        block_tokens=recorded.block_tokens,
        cache=recorded.cache,
    )
    replay_policy(states, usual)
    replay_policies(states, [usual])


if __name__ == "__main__":
    with contextlib.suppress(AttributeError, OSError):  # no such thing on Windows
        os.nice(19)
    compile_replays()
