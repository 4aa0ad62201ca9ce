"""A Ray cluster of two nodes writes the same bytes, also where a process or a whole node is killed
in the middle."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from app.answers.sweep.cluster import shard_stream
from app.answers.sweep.file import Sweep, SweepFile, SweepTask
from app.answers.sweep.run import run_sweep
from hardware_profiles.errors import InputError
from tests.app.answers.sweep.conftest import PLAIN

NODE = {"num_cpus": 1, "object_store_memory": 100 << 20, "node_ip_address": "127.0.0.1"}
LISTENS = "0A"  # of a socket, in /proc/net/tcp
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
LIMIT_S = 300


@pytest.fixture(scope="module")
def cluster():
    """A head and a second node on loopback, which tell nobody of their use."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray leaves files of its processes open
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # 15 otherwise, and no turn beside other tests
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        patch.setattr(
            ray_constants, "ENABLE_RAY_CLUSTER", False
        )  # a local address stays the loopback one
        both = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
        try:
            both.add_node(**NODE)
            yield both
        finally:
            both.shutdown()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A sweep, and the bytes that one process of this machine writes of it."""
    folder = tmp_path_factory.mktemp("here")
    sweep = Sweep(lists=SweepFile(**PLAIN), folder=folder)
    run_sweep(sweep, folder / "here.parquet", workers=1)
    return sweep, (folder / "here.parquet").read_bytes()


def working(raylets):
    """Processes of nodes that are computing a shard, each with its node."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [
        (int(pid), int(parent))
        for pid, parent, words in rows
        if int(parent) in raylets and "shard_stream" in words
    ]


def of_nodes(cluster):
    """Processes that the nodes themselves consist of."""
    return [
        each.process.pid
        for node in cluster.list_all_nodes()
        for kind in node.all_processes.values()
        for each in kind
    ]


def listening(processes):
    """Addresses, as /proc writes them, at which processes wait for connections."""
    held = set()
    for process in processes:
        with contextlib.suppress(OSError):
            held |= {str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    return {
        row[1].rpartition(":")[0]
        for row in rows
        if row[3] == LISTENS and f"socket:[{row[9]}]" in held
    }


# the node is last: it is gone then
@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lost", ["process", pytest.param("node", marks=pytest.mark.slow)])
def test_a_cluster_writes_the_same_bytes_whatever_is_killed_in_the_middle(
    cluster, undisturbed, tmp_path, capsys, lost
):
    sweep, expected = undisturbed
    raylets = [node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()]
    killed, heard, over = [], set(), threading.Event()

    def kill():
        deadline = time.monotonic() + LIMIT_S
        while not killed and not over.is_set() and time.monotonic() < deadline:
            found = working(raylets if lost == "process" else raylets[-1:])
            for process, raylet in found[:1]:
                heard.update(listening([process, *of_nodes(cluster)]))
                killed.append(process)
                os.kill(process, signal.SIGKILL)
                if lost == "node":
                    os.kill(raylet, signal.SIGKILL)
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        summary = run_sweep(sweep, tmp_path / "there.parquet", ray=cluster.address)
    finally:
        over.set()
        thread.join()
    assert killed
    assert heard <= LOOPBACK
    assert capsys.readouterr().out == ""  # an answer goes out there
    assert (summary.cells, summary.computed) == (40, 40)
    assert (tmp_path / "there.parquet").read_bytes() == expected


def test_a_node_with_other_files_refuses(tmp_path):
    sweep = Sweep(lists=SweepFile(**PLAIN), folder=tmp_path)
    task = SweepTask(lists=sweep.lists, folder=sweep.folder, seed=0, digest=sweep.digest(0))
    with pa.ipc.open_stream(shard_stream(task.model_dump_json(), 2)) as rows:
        assert rows.read_all().num_rows == 8
    elsewhere = task.model_copy(update={"digest": "of another machine"})
    with pytest.raises(
        InputError, match="a node of --ray: has another release of rooftree, or other files"
    ):
        shard_stream(elsewhere.model_dump_json(), 2)


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match="--ray: needs Ray: pip install 'rooftree"):
        run_sweep(
            Sweep(lists=SweepFile(**PLAIN), folder=tmp_path),
            tmp_path / "x.parquet",
            ray="127.0.0.1:1",
        )
