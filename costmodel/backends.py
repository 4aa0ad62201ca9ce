"""Which engines can split a request's KV cache among processors when a pass has several query tokens?

A table with its reasons; `--split-verify` on the command line overrides it. Leaves out versions beyond those named.
"""

from hardware_profiles.profile import Device

# FlashAttention-2's variable-length kernel never splits the cache for more than one query token, and vLLM runs it
# where FlashAttention-3 (Hopper) and TRT-LLM/FlashInfer kernels (Blackwell data centre) are not available.
_WITHOUT_SPLIT = {
    "vllm": ("a100", "a10g", "l4", "l40s", "rtx"),
    "transformers": ("a100", "a10g", "l4", "l40s", "rtx", "h100", "h200", "gh200", "b200", "mi300x"),
}


def can_split_verify(engine: str, device: Device) -> bool:
    """Whether an engine's attention on a device splits the cache in a verify pass.

    Args:
        engine: engine name; `none` stands for the best kernel there is.
        device: profile; CPUs read the cache once in any case.
    """
    prefixes = _WITHOUT_SPLIT.get(engine, ())
    return device.kind == "cpu" or not device.name.startswith(prefixes)
