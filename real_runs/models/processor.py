"""What is this machine's processor called? Leaves out accelerators, which torch names
(`real_runs.models.device`).
"""

import platform
from pathlib import Path


def cpu_title() -> str:
    """The CPU's model name, behind "CPU: "."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"CPU: {names[0] if names else platform.processor() or platform.machine()}"
