"""Which checkpoint can a method draft with, and does the target's own hold what drafts?

By names and configs alone. Leaves out what a drafter costs (`costmodel.drafters.drafter`) and how
files name it (`app.exporters`).
"""

from costmodel.architectures.library import load_model, stands_for_a_model
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError


def loads(method: str, checkpoint: str) -> bool:
    """Whether a method can draft with a checkpoint, as far as its name tells: a whole model is no
    draft head.

    Args:
        method: slug.
        checkpoint: shipped name, hub id or path.

    >>> loads("speculative-decoding", "llama-3.2-1b"), loads("eagle-3", "llama-3.2-1b"), loads("eagle-3", "org/a-head")
    (True, False, True)
    """
    entry = load_method(method)
    if (
        entry.needs_draft_model
        or not entry.drafts_with_weights
        or not stands_for_a_model(checkpoint)
    ):
        return entry.drafts_with_weights
    return entry.drafts_with_target_layers and load_model(checkpoint).mtp_layers > 0


def brings_its_head(method: str, model: str) -> bool:
    """Whether a method drafts with layers of the target's checkpoint that this checkpoint does not
    hold.

    A target that is not known here is taken to hold them, and so is a GGUF file, whose header is
    read for shapes alone.

    Args:
        method: slug.
        model: target, by name or path.

    >>> brings_its_head("mtp", "kimi-k2"), brings_its_head("mtp", "deepseek-v3"), brings_its_head("eagle-3", "kimi-k2")
    (True, False, False)
    """
    if not load_method(method).drafts_with_target_layers or model.casefold().endswith(".gguf"):
        return False
    try:
        return load_model(model).mtp_layers == 0
    except InputError:
        return False


def lacking_layers(method: str, model: str, *, brought: bool) -> str:
    """That nobody can run a method on a target as it was published, for want of layers in its
    checkpoint, and what to ask instead; empty where it can be run.

    Args:
        method: slug.
        model: target, by name or path.
        brought: a head is named, or a drafter is described, in the place of those layers.

    >>> lacking_layers("mtp", "deepseek-v3", brought=False), lacking_layers("mtp", "kimi-k2", brought=True)
    ('', '')
    """
    if brought or not brings_its_head(method, model):
        return ""
    return (
        f"nobody can run it as published: the checkpoint of {model} holds no layers that {method}"
        " drafts with (a head of your own: --draft or --draft-bytes; else name a model with such layers)"
    )
