"""Compiles the replay of masked blocks before somebody asks for it.

The first replay after an installation compiles for some fifteen seconds; what it makes is kept on
disk. A process of its own, which waits for everything else, does so when the server starts. Leaves
out who asks for it.
"""

import contextlib
import os
import subprocess


def compiling(python: str) -> "subprocess.Popen[bytes]":
    """Start compiling in a process of its own; what was compiled before is loaded, in seconds.

    Args:
        python: interpreter.
    """
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
