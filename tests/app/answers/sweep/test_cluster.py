"""A Ray cluster of two nodes writes the same bytes, also where a process is killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from app.answers.sweep.cluster import shard_table
from app.answers.sweep.file import Sweep, SweepFile
from app.answers.sweep.run import run_sweep
from app.answers.sweep.worker import asked_of
from hardware_profiles.errors import InputError
from tests.app.answers.sweep.conftest import PLAIN

NODE = {"num_cpus": 1, "object_store_memory": 100 << 20, "node_ip_address": "127.0.0.1", "include_dashboard": False}
LIMIT_S = 120


@pytest.fixture
def cluster(monkeypatch):
    """A head and a second node on loopback."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)  # a local address stays the loopback one
    both = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        both.add_node(**{key: value for key, value in NODE.items() if key != "include_dashboard"})
        yield both
    finally:
        both.shutdown()


def working(cluster):
    """Processes of the cluster's nodes that are computing a shard."""
    raylets = {str(node.all_processes["raylet"][0].process.pid) for node in cluster.list_all_nodes()}
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [int(pid) for pid, parent, words in rows if parent in raylets and "shard_table" in words]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_writes_the_same_bytes_and_replaces_a_process_that_is_killed(cluster, tmp_path):
    sweep = Sweep(lists=SweepFile(**PLAIN), folder=tmp_path)
    run_sweep(sweep, tmp_path / "here.parquet", workers=1)
    killed, over = [], threading.Event()

    def kill_one():
        deadline = time.monotonic() + LIMIT_S
        while not killed and not over.is_set() and time.monotonic() < deadline:
            for process in working(cluster)[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            time.sleep(0.02)

    thread = threading.Thread(target=kill_one)
    thread.start()
    try:
        summary = run_sweep(sweep, tmp_path / "there.parquet", ray=cluster.address)
    finally:
        over.set()
        thread.join()
    assert killed
    assert (summary.cells, summary.computed) == (40, 40)
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_a_node_with_other_files_refuses(tmp_path):
    sweep = Sweep(lists=SweepFile(**PLAIN), folder=tmp_path)
    told = asked_of(sweep, 0) | {"digest": sweep.digest(0)}
    assert shard_table(json.dumps(told), 2).num_rows == 8
    with pytest.raises(InputError, match="a node of --ray: has another release of rooftree, or other files"):
        shard_table(json.dumps(told | {"digest": "of another machine"}), 2)


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match="--ray: needs Ray: pip install 'rooftree"):
        run_sweep(Sweep(lists=SweepFile(**PLAIN), folder=tmp_path), tmp_path / "x.parquet", ray="127.0.0.1:1")
