"""Would a campaign on this GPU give true numbers?

Runs the probes of `real_runs.kernels.probes`, each in a process of its own with a time limit, so
that one that hangs or loses the device ends alone. Leaves out what the probes do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from real_runs.kernels.probes import PROBES, ProbeResult

LIMIT_S = 40.0  # torch alone takes several to import from a cold disk
_MODULE = "real_runs.kernels.probes"


def examine(
    device: str = "cuda",
    *,
    probes: Sequence[str] | None = None,
    limit_s: float = LIMIT_S,
    progress: Callable[[ProbeResult], None] = lambda finding: None,
) -> list[ProbeResult]:
    """Run every probe.

    Args:
        device: torch device.
        probes: names; None: all.
        limit_s: seconds of each.
        progress: called with every finding.
    """
    findings = []
    for name in probes or PROBES:
        finding = _run_probe(name, device, limit_s)
        progress(finding)
        findings.append(finding)
    return findings


def _run_probe(name: str, device: str, limit_s: float) -> ProbeResult:
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    request = json.dumps({"probe": name, "device": device})
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE],
            input=request,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        detail = f"did not end within {limit_s:g} s"
        return ProbeResult(
            probe=name,
            state="wrong",
            detail=detail,
            advice="the device may hang: look at it",
            seconds=limit_s,
        )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["nothing was written"])[-1][:300]
        return ProbeResult(
            probe=name,
            state="wrong",
            detail=f"ended with {done.returncode}: {last}",
            advice="report it",
        )
    return ProbeResult(**json.loads(lines[-1]))


__all__ = ["LIMIT_S", "ProbeResult", "examine"]
