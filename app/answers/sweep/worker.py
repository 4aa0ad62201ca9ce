"""How does a process of its own compute shards of a sweep?

Run as a module it reads what the sweep is, then the number of a shard a line, on standard input,
and answers with the number once the shard's file is whole. It ends with its input, so that it never
outlives the sweep.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from app.answers.sweep.file import Sweep, SweepFile
from hardware_profiles.errors import RooftreeError

PART = "part-{:06d}.parquet"
REFUSED = "! "
"""What an answer begins with that says why there is none."""


def asked_of(sweep: Sweep, seed: int) -> dict[str, Any]:
    """What a worker is told before it begins."""
    return {"lists": sweep.lists.model_dump(mode="json"), "folder": str(sweep.folder), "seed": seed}


def main() -> int:
    """Compute the shards that are named on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep decides what an interrupt means
    # loaded only now: an interrupt while modules are loading would end in a traceback
    from app.answers.sweep.evaluate import SweepEvaluation
    from traces.storage.parquet_files import write_parquet

    question = json.loads(sys.stdin.readline())
    sweep = Sweep(
        lists=SweepFile.model_validate(question["lists"]), folder=Path(question["folder"])
    )
    evaluation, parts = SweepEvaluation(sweep, question["seed"]), Path(question["parts"])
    for line in sys.stdin:
        try:
            write_parquet(evaluation.shard(int(line)), parts / PART.format(int(line)))
            sys.stdout.write(line)
        except RooftreeError as error:
            sys.stdout.write(f"{REFUSED}{' '.join(str(error).split())}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
