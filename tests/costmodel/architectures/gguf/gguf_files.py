"""GGUF headers made up byte by byte."""

import struct

SHAPE = {
    "block_count": 3,
    "embedding_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "feed_forward_length": 128,
    "context_length": 512,
}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return text(key) + struct.pack("<II", 4, value)


def header(
    *,
    tensors=(("token_embd.weight", (64, 100), 8), ("blk.0.attn_q.weight", (64, 64), 3)),
    family="llama",
    **more,
):
    """A file of a small Llama: metadata, then tensors as (name, sizes, type)."""
    keys = {"general.architecture": family, "tokenizer.ggml.tokens": ["a", "b"]}
    keys |= {f"{family}.{key}": value for key, value in (SHAPE | more).items() if value is not None}
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    data += b"".join(entry(key, value) for key, value in keys.items())
    for name, sizes, kind in tensors:
        data += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, 0)
    return data
