"""How is a small draft model made out of the target alone?

A few of the target's layers between its own embedding and head, trained to the target's
distribution on text that the target wrote, and written as a folder that any loader of such models
reads. Leaves out the text (`head_data`) and drafting (`draft_model`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder, whole_file
from real_runs.drafters.heads.decoder_layer import (
    DecoderLayer,
    embedded,
    has_plain_layers,
    head_logits,
    layer_config,
    rotation,
)
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import (
    HeadRecipe,
    HeadTraining,
    Labels,
    cross_entropy,
    train,
)
from real_runs.models.bridge import unit_rms
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama

LAYERS = 3
_STATE_WEIGHT = 1.0
_WEIGHTS = "model.safetensors"


class DraftStack(nn.Module):
    """The layers of a draft model; embedding, norm and head are the target's.

    Args:
        model: the target.
        layers: how many; all but the last are the target's first ones to begin with, the last is
            its last.

    Raises:
        InputError: as many layers as the target has or more, or a family whose layers cannot be
            trained here.
    """

    def __init__(self, model: Llama, *, layers: int = LAYERS) -> None:
        super().__init__()
        if not 1 <= layers < model.config.layers:
            raise InputError(
                f"must lie in 1..{model.config.layers - 1}", key="layers", value=layers
            )
        if not has_plain_layers(model.config):
            raise InputError(
                "only plain Llama layers, without query norms or biases, can be trained",
                key="model",
            )
        self.config = layer_config(model.config, layers)
        self.layers = nn.ModuleList(DecoderLayer(self.config) for _ in range(layers))
        for place, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            layer.copy_from(model, place if place + 1 < layers else model.config.layers - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """States [B, T, width] after all layers, of embeddings."""
        at = torch.arange(x.shape[1])
        turned, mask = rotation(self.config, at), at <= at[:, None]
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            q, k, v = layer.heads(x, turned)
            x = layer.mixed(x, q, k, v, mask)
        return x


def fit_draft_model(
    model: Llama,
    text: HeadText,
    training: HeadTraining,
    *,
    layers: int = LAYERS,
    report: Callable[[int, int, float], None] | None = None,
) -> DraftStack:
    """Train a draft model.

    Args:
        model: the target.
        text: what it wrote, with the states after its last layer.
        training: how.
        layers: of the draft model.
        report: called with (steps done, steps, loss).
    """
    stack = DraftStack(model, layers=layers)

    def loss(rows: torch.Tensor, words: torch.Tensor, labels: Labels) -> torch.Tensor:
        places, probabilities = labels.rows(rows, words)
        states = stack(embedded(model, text.tokens[rows]))[
            :, 1:
        ]  # the first token's state is of another kind
        wanted = text.states[model.config.layers][rows, 1:].float()
        entropy = cross_entropy(
            head_logits(model, states, words), places[:, 1:], probabilities[:, 1:]
        )
        distance: torch.Tensor = functional.smooth_l1_loss(unit_rms(states), wanted)
        return entropy + _STATE_WEIGHT * distance

    train(stack, training, text, words=model.config.vocabulary, loss=loss, report=report)
    return stack


def save_draft_model(model: Llama, stack: DraftStack, recipe: HeadRecipe, folder: Path) -> None:
    """Write a folder with config.json and model.safetensors (float16) that `load_draft_model`
    reads.

    The weights are written last and whole or not at all: a folder without them is no model.

    Args:
        model: the target, whose embedding, norm and head go with it.
        stack: the layers.
        recipe: what they depend on; kept beside the weights.
        folder: made if it is not there.
    """
    make_folder(folder)
    with whole_file(folder / "config.json") as part:
        part.write_text(json.dumps(hf_config(stack.config), indent=2) + "\n", encoding="utf-8")
    tensors = {
        name: value.to("cpu", torch.float16).contiguous()
        for name, value in _tensors(model, stack).items()
    }
    with whole_file(folder / _WEIGHTS) as part:
        part.write_bytes(save(tensors, _metadata(recipe)))


def is_draft_model(folder: Path, recipe: HeadRecipe) -> bool:
    """Whether a folder holds the draft model that this very recipe made."""
    if not (folder / _WEIGHTS).is_file() or not (folder / "config.json").is_file():
        return False
    try:
        with safe_open(folder / _WEIGHTS, framework="pt") as stored:
            return bool((stored.metadata() or {}) == _metadata(recipe))
    except (SafetensorError, OSError):
        return False


def hf_config(config: LlamaConfig) -> dict[str, Any]:
    """A Hugging Face `config.json` of family "llama" for a shape."""
    scaling = config.rope_scaling
    rope: dict[str, Any] = {"rope_theta": config.rope_theta, "rope_type": scaling.kind}
    if scaling.kind != "default":
        rope |= {
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_frequency_factor,
            "high_freq_factor": scaling.high_frequency_factor,
            "original_max_position_embeddings": scaling.original_positions,
        }
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn_width,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": rope,
        "tie_word_embeddings": config.tied_head,
        "max_position_embeddings": config.max_positions,
        "eos_token_id": list(config.eos_ids),
        "torch_dtype": "float16",
    }


def _tensors(model: Llama, stack: DraftStack) -> dict[str, torch.Tensor]:
    """All tensors by the names that Hugging Face gives them."""
    config = stack.config
    tensors = {"model.embed_tokens.weight": model._embedding, "model.norm.weight": model._norm}
    if not config.tied_head:
        tensors["lm_head.weight"] = model._head
    sizes = [config.heads * config.head_dim, *(2 * [config.kv_heads * config.head_dim])]
    for place, layer in enumerate(stack.layers):
        assert isinstance(layer, DecoderLayer)
        q, k, v = torch.split(layer.qkv.detach(), sizes)
        gate, up = layer.gate_up.detach().chunk(2)
        names = {
            "input_layernorm": layer.input_norm,
            "post_attention_layernorm": layer.ffn_norm,
            "self_attn.q_proj": q,
            "self_attn.k_proj": k,
            "self_attn.v_proj": v,
            "self_attn.o_proj": layer.output,
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": layer.down,
        }
        tensors |= {
            f"model.layers.{place}.{name}.weight": value.detach() for name, value in names.items()
        }
    return tensors


def _metadata(recipe: HeadRecipe) -> dict[str, str]:
    return {"format": "pt", "recipe": json.dumps(asdict(recipe), sort_keys=True)}
