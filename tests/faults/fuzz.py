"""Does any file or word from outside end in a traceback, in more than two seconds or in more than a
gigabyte?

    python tests/faults/fuzz.py --cases 50000 --out rooftree-out/fuzz

Cases are drawn by a seeded generator from files that can be read, and played in a child process
whose memory is limited; a child that dies is a fault of the case that it played. Every fault names
its target and number, by which `--only TARGET:NUMBER` plays it again, and is kept in the folder.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 2.0
MOST_BYTES = 1 << 30
STALLED_S = 120.0


class TooSlow(BaseException):
    """Raised by the timer inside a case."""


def main(arguments=None):
    """Exit code: 0 without a fault, 1 with one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=None, help="folder for the cases that were faults"
    )
    parser.add_argument("--only", help="one case, TARGET:NUMBER, or all of one target")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.worker:
        return _work(json.loads(chosen.worker))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        shares = _shares(chosen, folder)
        reports = [
            _played(name, first, count, chosen, folder) for name, (first, count) in shares.items()
        ]
    faults = [fault for report in reports for fault in report["faults"]]
    for report in reports:
        print(
            f"{report['target']:16} {report['cases']:6} cases: {report['read']:6} read,"
            f" {report['refused']:6} refused, {len(report['faults'])} faults; slowest"
            f" {report['slowest_s']:.3f} s, +{report['gained_mib']:.0f} MiB"
        )
    for fault in faults[:40]:
        print(f"FAULT {fault['case']}: {fault['what']}")
    total = sum(report["cases"] for report in reports)
    print(
        f"{total} cases, {len(faults)} faults, seed {chosen.seed}, {time.monotonic() - began:.0f} s"
    )
    return 1 if faults else 0


def _shares(chosen, folder):
    """First number and count of the cases of every target."""
    sys.path.insert(0, str(ROOT))
    from tests.faults.targets import targets

    found = targets(Path(folder))
    if chosen.only:
        name, _, number = chosen.only.partition(":")
        return {name: (int(number), 1) if number else (0, chosen.cases)}
    weights = sum(target.weight for target in found.values())
    return {
        name: (0, max(1, round(chosen.cases * target.weight / weights)))
        for name, target in found.items()
    }


def _played(name, first, count, chosen, folder):
    """The report of one target; a worker that dies is replaced, and its case is a fault."""
    total = {
        "target": name,
        "cases": 0,
        "read": 0,
        "refused": 0,
        "slowest_s": 0.0,
        "gained_mib": 0.0,
        "faults": [],
    }
    at, last = first, first + count
    while at < last:
        state = Path(folder) / f"{name}.json"
        state.unlink(missing_ok=True)
        order = {
            "target": name,
            "first": at,
            "last": last,
            "seed": chosen.seed,
            "folder": folder,
            "state": str(state),
            "out": None if chosen.out is None else str(chosen.out),
        }
        code = _watched([sys.executable, __file__, "--worker", json.dumps(order)], state)
        report = json.loads(state.read_text()) if state.exists() else None
        if report is None:
            raise SystemExit(f"the worker of {name} did not begin (exit code {code})")
        for key in ("cases", "read", "refused"):
            total[key] += report[key]
        for key in ("slowest_s", "gained_mib"):
            total[key] = max(total[key], report[key])
        total["faults"] += report["faults"]
        at = report["next"]
        if code != 0 and at < last:
            total["faults"].append(
                {"case": f"{name}:{at}", "what": f"the process died (exit code {code})"}
            )
            total["cases"] += 1
            at += 1
    return total


def _watched(words, state):
    """Exit code of a worker, which is killed where its state stands still."""
    about = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(words, env=about, cwd=ROOT) as worker:
        while True:
            try:
                return worker.wait(timeout=5)
            except subprocess.TimeoutExpired:
                moved = state.stat().st_mtime if state.exists() else time.time()
                if time.time() - moved > STALLED_S:
                    worker.kill()


def _work(order):
    """Play cases in this process, and keep the report in a file as it grows."""
    from hardware_profiles.errors import RooftreeError
    from tests.faults.targets import targets

    folder = Path(order["folder"])
    target = targets(folder)[order["target"]]
    state = Path(order["state"])
    file = folder / f"case{target.ending}"
    report = {
        "cases": 0,
        "read": 0,
        "refused": 0,
        "slowest_s": 0.0,
        "gained_mib": 0.0,
        "faults": [],
        "next": order["first"],
    }
    for warm in range(20):  # what is loaded once is no case's memory
        try:
            _play(target, random.Random(f"warm {warm}"), file)
        except RooftreeError:
            pass
        except Exception:
            pass
    _limit_memory()
    warnings.simplefilter("error")  # a warning is a line that its reader did not mean to print
    signal.signal(signal.SIGPROF, _out_of_time)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(order["first"], order["last"]):
        report["next"] = number
        state.write_text(json.dumps(report))
        generator = random.Random(f"{order['seed']}:{order['target']}:{number}")
        began = time.process_time()
        fault = None
        try:
            signal.setitimer(signal.ITIMER_PROF, 2 * MOST_SECONDS)
            _play(target, generator, file)
            report["read"] += 1
        except RooftreeError:
            report["refused"] += 1
        except (Exception, TooSlow) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{type(error).__name__}: {str(error)[:200]} at {where.filename}:{where.lineno}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - began
        report["slowest_s"] = max(report["slowest_s"], seconds)
        if fault is None and seconds > MOST_SECONDS:
            fault = f"took {seconds:.1f} s"
        if fault is not None:
            report["faults"].append({"case": f"{order['target']}:{number}", "what": fault})
            _keep(order, number, file)
        report["cases"] += 1
        report["gained_mib"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    report["next"] = order["last"]
    state.write_text(json.dumps(report))
    return 0


def _play(target, generator, file):
    content = target.make(generator)
    file.write_bytes(
        content if isinstance(content, bytes) else content.encode("utf-8", errors="surrogatepass")
    )
    target.play(file)


def _keep(order, number, file):
    if order["out"] is not None:
        folder = Path(order["out"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{order['target']}-{number}{file.suffix}").write_bytes(file.read_bytes())


def _limit_memory():
    """A case may map a gigabyte beyond what this process maps already."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _out_of_time(signum, frame):
    raise TooSlow("stopped by the timer")


if __name__ == "__main__":
    raise SystemExit(main())
