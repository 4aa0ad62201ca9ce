"""Which config lets an engine build a draft head that nobody has trained, to time a plan under
synthetic acceptance?

The head is the one that predictions price: its layer has the widths of the target's, in the form of
EAGLE-3 heads for Llama. Leaves out weights, which engines fill in at random, and methods other than
EAGLE-3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.exporters.result import json_lines
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.drafters.stage import build_stage
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError

HEAD_FOLDER = "draft-head"
HEAD_FILE = f"{HEAD_FOLDER}/config.json"
HEAD_NOTE = (
    f"{HEAD_FILE} describes the head that was priced, with random weights; no device has tried"
    " it yet"
)


def untrained_head(chosen: DecodingConfiguration) -> str | None:
    """The config.json of an untrained head.

    Args:
        chosen: what to run.

    Returns:
        The file's text; None where the method is no EAGLE-3, the target is not known or of another
        kind, or is named by a relative path, which a script that starts in its own folder would not
        find.
    """
    name = chosen.deployment.model
    if chosen.method != "eagle-3" or (Path(name).exists() and not Path(name).is_absolute()):
        return None
    try:
        target = load_model(name)
    except InputError:
        return None
    (draft,) = load_method(chosen.method).draft
    head = build_stage(draft, target, model=None, exit_layer=None).architecture
    if head is None:
        return None
    block, attention = head.blocks[0][0], head.blocks[0][0].attention
    if (
        not attention.heads
        or attention.is_mla
        or block.state is not None
        or not block.feed_forward.gated
    ):
        return None
    content: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": head.hidden,
        "intermediate_size": block.feed_forward.width,
        "num_hidden_layers": head.layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "vocab_size": target.vocab,
        "draft_vocab_size": head.vocab,
        "max_position_embeddings": target.max_context,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    return json_lines(content)
