"""What do the configs of encoder-decoders leave out, one entry for each family?

Spellings name the decoder's keys; those of the encoder are read in `encoder_decoder`. Defaults are
those of the configuration classes of transformers 5.23, but for T5's output head: its later
releases store one of their own.
"""

from collections.abc import Mapping
from dataclasses import replace

from costmodel.architectures.hf.family import Family

_BART = Family(
    defaults={"tie_word_embeddings": True, "max_position_embeddings": 1024},
    spellings={
        "hidden_size": ("d_model",),
        "num_hidden_layers": ("decoder_layers",),
        "num_attention_heads": ("decoder_attention_heads",),
        "intermediate_size": ("decoder_ffn_dim",),
    },
    bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norm_bias=True,
    extra_positions=2,
    encoder="bart",
)

ENCODER_FAMILIES: Mapping[str, Family] = {
    "t5": Family(
        defaults={
            "tie_word_embeddings": True,
            "max_position_embeddings": 512,
            "feed_forward_proj": "relu",
            "relative_attention_num_buckets": 32,
        },
        spellings={
            "hidden_size": ("d_model",),
            "num_hidden_layers": ("num_decoder_layers", "num_layers"),
            "num_attention_heads": ("num_heads",),
            "head_dim": ("d_kv",),
            "intermediate_size": ("d_ff",),
            "max_position_embeddings": ("n_positions",),
        },
        gated=False,
        encoder="t5",
    ),
    "bart": _BART,
    "whisper": replace(
        _BART,
        defaults={
            "tie_word_embeddings": True,
            "max_position_embeddings": 448,
            "max_source_positions": 1500,
            "num_mel_bins": 80,
        },
        spellings={**_BART.spellings, "max_position_embeddings": ("max_target_positions",)},
        bias=False,
        extra_positions=0,
        encoder="whisper",
    ),
}
