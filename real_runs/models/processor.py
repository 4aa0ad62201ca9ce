"""What is this machine's processor called, and how much memory has it? Leaves out accelerators, which
torch names (`real_runs.models.device`).
"""

import os
import platform
import subprocess
from pathlib import Path


def cpu_title() -> str:
    """The CPU's model name, behind "CPU: "."""
    return f"CPU: {_model_name() or platform.processor() or platform.machine()}"


def memory_bytes() -> int | None:
    """Memory of the machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _model_name() -> str:
    """As Linux lists it in a file, and macOS says it by sysctl."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    if names or platform.system() != "Darwin":
        return names[0] if names else ""
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return said.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
