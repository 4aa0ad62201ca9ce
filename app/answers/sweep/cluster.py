"""How are the shards of a sweep computed on a Ray cluster?

Every node has the same release of rooftree and the files that the lists name, at the same places; a
node where that is not so refuses, rather than answer otherwise. Tables come back to this process,
which writes them. Leaves out how a cluster is started.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.answers.sweep.evaluate import SweepEvaluation
from app.answers.sweep.file import SweepTask
from app.answers.sweep.worker import PART
from hardware_profiles.errors import InputError, RooftreeError
from traces.storage.parquet_files import write_parquet

MOST_TRIES = 3  # times that a shard is begun again where its process or its node dies
QUEUED = 4  # shards that are asked for at once, a processor of the cluster


def computed_on_ray(
    address: str, task: SweepTask, shards: Sequence[int], parts: Path
) -> Iterator[int]:
    """Compute shards on a cluster.

    Args:
        address: `HOST:PORT` of its head, `ray://HOST:PORT`, or `auto`.
        task: what its processes are told, with the sweep's digest.
        shards: to compute.
        parts: folder of their files, on this machine.

    Yields:
        A shard when its file is whole, in no particular order.

    Raises:
        InputError: Ray is not installed, no cluster answers, a node has another release or other
            files, or processes die of a shard again and again.
    """
    ray = _ray()
    # Ray reports processes that died on standard output, which belongs to the answer
    with redirect_stdout(sys.stderr):
        yield from _computed(ray, address, task, shards, parts)


def _computed(
    ray: Any, address: str, task: SweepTask, shards: Sequence[int], parts: Path
) -> Iterator[int]:
    """See `computed_on_ray`."""
    try:
        ray.init(
            address=address, log_to_driver=False, logging_level="error", ignore_reinit_error=True
        )
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"no Ray cluster answers there ({reason})", key="--ray", value=address
        ) from None
    try:
        remote = ray.remote(num_cpus=1, max_retries=MOST_TRIES)(shard_stream)
        written, left = task.model_dump_json(), iter(shards)
        most = QUEUED * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        running = {remote.remote(written, shard): shard for shard in islice(left, most)}
        while running:
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            shard = running.pop(ready)
            with pa.ipc.open_stream(_stream(ray, ready, shard)) as rows:
                write_parquet(rows.read_all(), parts / PART.format(shard))
            running |= {
                remote.remote(written, following): following for following in islice(left, 1)
            }
            yield shard
    finally:
        ray.shutdown()


def shard_stream(task: str, shard: int) -> bytes:
    """The rows of a shard, on a node: a table as Arrow writes it to a stream, which asks less of
    Ray than a table does.

    Args:
        task: a `SweepTask` as JSON.
        shard: its number.

    Raises:
        InputError: this node has another release, or other files under the names of the lists.
    """
    table, sink = _evaluation(task).shard(shard), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


@lru_cache(maxsize=1)
def _evaluation(written: str) -> SweepEvaluation:
    """What a process of a node remembers of one sweep."""
    task = SweepTask.model_validate_json(written)
    if task.sweep.digest(task.seed) != task.digest:
        rule = (
            "has another release of rooftree, or other files under the names of the lists, than"
            " this machine"
        )
        raise InputError(rule, key="a node of --ray")
    return SweepEvaluation(task.sweep, task.seed)


def _stream(ray: Any, ready: Any, shard: int) -> bytes:
    """What a finished task brought."""
    try:
        brought: bytes = ray.get(ready)
        return brought
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, RooftreeError):
            raise InputError(str(cause)) from None
        raise
    except ray.exceptions.RayError as error:
        rule = f"cannot be computed ({str(error).strip().splitlines()[0]})"
        raise InputError(rule, key=f"shard {shard}") from None


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    try:
        import ray
    except ImportError:
        raise InputError("needs Ray: pip install 'rooftree[ray]'", key="--ray") from None
    return ray
