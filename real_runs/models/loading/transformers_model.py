"""How does Transformers run our weights?

The same tensors in its Llama, as a reference for logits and for speed: one decoding pass over its
own cache, or its own loop. Leaves out other families.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import transformers

from hardware_profiles.errors import InputError
from real_runs.models.loading.weights import LoadedWeights

ATTENTIONS = ("eager", "sdpa")
Call = Callable[[], Any]


def transformers_model(weights: LoadedWeights, attention: str, dtype: torch.dtype) -> Any:
    """Transformers' model of the same weights; a Llama with biases or norms on heads is none of its
    Llamas.

    Args:
        weights: of a plain Llama.
        attention: "eager" or "sdpa".
        dtype: number format.

    Raises:
        InputError: another family.
    """
    config = weights.config
    if (
        config.blocks
        or config.qk_norm
        or config.attention_bias
        or config.rope_scaling.kind != "default"
    ):
        raise InputError(
            "Transformers' Llama has neither head norms nor biases nor a scaling here", key="model"
        )
    theirs = transformers.LlamaConfig(
        vocab_size=config.vocabulary,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        intermediate_size=config.ffn_width,
        rms_norm_eps=config.norm_eps,
        tie_word_embeddings=config.tied_head,
        max_position_embeddings=config.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        attn_implementation=attention,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(theirs).eval()
    tensors = {
        name: value
        for name, value in weights.tensors.items()
        if name.startswith(("model.", "lm_head."))
    }
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    return model.to(dtype)


def transformers_passes(model: Any, context: int) -> Call:
    """One decoding pass of Transformers over a cache of the same length; the cache is cut back
    after each.
    """
    cache = transformers.DynamicCache(config=model.config)
    token = torch.tensor([[5]])
    with torch.inference_mode():
        model(
            torch.arange(1, context)[None] % model.config.vocab_size,
            past_key_values=cache,
            logits_to_keep=1,
        )

    def call() -> torch.Tensor:
        with torch.inference_mode():
            logits: torch.Tensor = model(token, past_key_values=cache, use_cache=True).logits
            cache.crop(-1)
        return logits

    return call


def transformers_texts(model: Any, prompt: Sequence[int], tokens: int) -> Call:
    """A whole greedy generation by Transformers' own loop."""
    ids = torch.tensor([list(prompt)])
    options = {
        "max_new_tokens": tokens,
        "min_new_tokens": tokens,
        "do_sample": False,
        "pad_token_id": 0,
    }
    return partial(model.generate, ids, attention_mask=torch.ones_like(ids), **options)
