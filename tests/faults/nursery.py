"""Starts a command line again and again in processes that have loaded every library already, and
kills them.

Orders are lines of JSON on standard input: the words, a folder to stand in, and where to kill the
process: after so many seconds, or before the so-manieth change that it makes below that folder (a
file that it opens for writing, renames or removes, a folder that it makes). Every answer is a line:
exit code or -9, seconds and changes. What the first life had to import, later ones find imported.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 300.0


def main():
    """Play orders until there are no more."""
    import traces.storage.acceptance_file  # noqa: F401

    if "torch" in sys.argv[1:]:
        import torch

        import real_runs.campaigns.campaign
        import real_runs.campaigns.decode_runs
        import real_runs.campaigns.kernel_job
        import real_runs.campaigns.recording_job
        import real_runs.models.loading.tokenizer
        import real_runs.recording.record
        import real_runs.validation.own_loop.validate  # noqa: F401

        torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(_played(json.loads(line))), flush=True)


def _played(order):
    heard, told = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(heard)
        _live(order, told)
    os.close(told)
    limit = PATIENCE_S if order["after_s"] is None else order["after_s"]
    ended = 0
    while not ended and time.monotonic() - began < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.001)
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    changes = os.read(heard, 64).decode()
    os.close(heard)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    for name in _imports(order).read_text().split() if code == 0 else ():
        with suppress(Exception):
            importlib.import_module(name)
    return {"code": code, "seconds": time.monotonic() - began, "changes": int(changes or 0)}


def _live(order, told):
    """The command, in a child; never returns."""
    code = 70
    try:
        os.chdir(order["folder"])
        for name in (1, 2):
            os.dup2(os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), name)
        changes = _counted(order["folder"], order["at_change"])
        if order["steady"]:
            _measure_steadily()
        from app.cli.main import main as command

        code = command(order["words"])
        os.write(told, str(changes[0]).encode())
        _imports(order).write_text("\n".join(sys.modules))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _imports(order):
    """Where a life says what it had imported."""
    return Path(order["log"]).with_name("imports.txt")


def _counted(folder, deadly):
    """Count changes below a folder from here on, and die before one of them."""
    count = [0]
    inside = os.path.realpath(folder) + os.sep

    def seen(event, arguments):
        if event == "open":
            path, mode, flags = arguments
            if not (
                set(mode or "") & set("wax+")
                or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            ):
                return
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            path = arguments[0]
        else:
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        whole = os.path.join(inside, os.fsdecode(path))  # noqa: PTH118
        if whole.startswith(inside):
            count[0] += 1
            if count[0] == deadly:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(seen)
    return count


def _measure_steadily():
    """Every call takes a millisecond, whoever else computes here, so that equal rows have equal
    times.

    Nothing is called, so that one set of operands is enough.
    """
    from real_runs.calibration import device
    from real_runs.kernels import sweep, timing

    sweep.sets_needed, sweep.is_cold = lambda *_, **__: 1, lambda *_, **__: True
    timing.cpu_time = lambda calls, start, count: (1e-3 * count, 1e-3 * count)
    # of the function itself: later lives have it imported under its name already
    device.calibrate_device.__kwdefaults__["isolate"] = False
    device.calibration_jobs = _few_jobs


def _few_jobs(model, dtype, budget_s, *, cpu, start_s):
    """A calibration of a few small shapes."""
    every = {
        "dtype": dtype,
        "repeats": 3,
        "budget_s": 0.01,
        "estimate_s": 600,
        "kernel_names": False,
    }
    passes = {"kind": "steps", "model": model, "layers": 2, **every}
    jobs = [
        {"name": "copy", "kind": "copy", "sizes_bytes": [64 << 20]},
        {
            "name": "passes",
            **passes,
            "requests": [1, 2],
            "query_tokens": [1, 2, 4, 8],
            "context": [32, 96],
        },
        {
            "name": "tree-passes",
            **passes,
            "masks": ["tree"],
            "requests": [1],
            "query_tokens": [5, 9],
            "context": [32],
        },
        {
            "name": "attention",
            "kind": "attention",
            "model": model,
            "requests": [1, 2],
            "query_tokens": [1, 4],
            "context": [32, 96],
            "implementations": ["sdpa-packed"],
        },
        {"name": "gemm", "kind": "gemm", "models": [model], "rows": [1, 4]},
    ]
    return [{**every, **job, "priority": at} for at, job in enumerate(jobs)]


if __name__ == "__main__":
    main()
