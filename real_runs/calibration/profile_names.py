"""What is the profile of a measured machine called? Leaves out what it holds."""

import re


def profile_name(title: str, threads: int) -> str:
    """The file name of a device's own profile: its processor, and the threads of a CPU.

    Example:
        >>> profile_name("CPU: AMD EPYC 9554 64-Core Processor", 1)
        'cpu-amd-epyc-9554--1-thread'
        >>> profile_name("NVIDIA H100 80GB HBM3", 1)
        'nvidia-h100-80gb-hbm3'
    """
    text = re.sub(r"\b(\d+-core|processor|cpu @.*|\(r\)|\(tm\))", " ", title.casefold())
    slug = re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:50]
    if not title.startswith("CPU"):
        return slug
    return f"{slug}--{threads}-thread" + ("s" if threads > 1 else "")


def engine_profile_name(device: str, engine: str) -> str:
    """The name of a profile that holds for an engine on a device.

    Example:
        >>> engine_profile_name("cpu-amd-epyc--1-thread", "llama.cpp")
        'cpu-amd-epyc--llama-cpp'
        >>> engine_profile_name("h100-sxm", "vllm")
        'h100-sxm--vllm'
    """
    stem = re.sub(r"--1-thread$", "", device)
    return f"{stem}--{re.sub(r'[^a-z0-9]+', '-', engine.casefold()).strip('-')}"
