"""What do configs of encoder-decoders say beside their decoder: T5, BART and Whisper?

The decoder is read as any other model is (`config`); here it gets its encoder. Relative position
biases are weights without a cost. Leaves out encoders whose output is cut short, and vision
encoders.
"""

from dataclasses import replace

from costmodel.architectures.architecture import NO_ATTENTION, NO_FEED_FORWARD, Architecture, Block
from costmodel.architectures.encoder_decoder import joined, reading_both_ways
from costmodel.architectures.hf.keys import ConfigKeys
from costmodel.architectures.hf.layer import LAYER_LIMIT

_TAPS = 3  # of Whisper's two convolutions, the second of which halves the frames
_ACTIVATIONS = ("relu", "gelu", "silu", "swish")


def with_encoder(keys: ConfigKeys, decoder: Architecture) -> Architecture:
    """An encoder-decoder by its config and its decoder.

    Args:
        keys: the config.
        decoder: as the config's decoder keys say, its layers all alike.

    Raises:
        InputError: a key is missing or malformed.
    """
    if keys.family.encoder == "t5":
        return _t5(keys, decoder)
    hidden, (block, count) = decoder.hidden, decoder.blocks[0]
    heads = keys.count("encoder_attention_heads")
    if hidden % heads:
        raise keys.error("encoder_attention_heads", f"must divide d_model ({hidden})", heads)
    attention = replace(block.attention, heads=heads, kv_heads=heads, head_dim=hidden // heads)
    width = keys.count("encoder_ffn_dim")
    layer = replace(
        block, attention=attention, feed_forward=replace(block.feed_forward, width=width)
    )
    layers = keys.count("encoder_layers", most=LAYER_LIMIT)
    if keys.family.encoder == "bart":
        return joined(
            decoder,
            _stack(decoder, ((reading_both_ways(layer), layers),), decoder.learned_positions),
        )
    # Whisper: queries and values have biases and keys none; the output projections' are counted as
    # any model's
    crossing = replace(decoder, blocks=((replace(block, extra_values=4 * hidden), count),))
    positions = keys.count("max_source_positions", most=LAYER_LIMIT)
    frames = (
        ("convolution", hidden, _TAPS * keys.count("num_mel_bins")),
        ("convolution", hidden, _TAPS * hidden),
    )
    hearing = Block(
        attention=NO_ATTENTION,
        feed_forward=NO_FEED_FORWARD,
        norms=0,
        extra=frames,
        extra_values=2 * hidden,
    )
    blocks = ((hearing, 1), (reading_both_ways(replace(layer, extra_values=2 * hidden)), layers))
    return joined(crossing, _stack(decoder, blocks, positions), source_positions=positions)


def _t5(keys: ConfigKeys, decoder: Architecture) -> Architecture:
    activation = keys.get("feed_forward_proj")
    form, dash, name = str(activation).partition("-")
    if (
        not isinstance(activation, str)
        or (dash and form != "gated")
        or (name or form).split("_")[0] not in _ACTIVATIONS
    ):
        keys.mistakes.append(
            keys.error(
                "feed_forward_proj", 'must be an activation, or "gated-" and one', activation
            )
        )
    block, count = decoder.blocks[0]
    block = replace(block, feed_forward=replace(block.feed_forward, gated=bool(dash)))
    # of one layer, which all share
    biases = keys.count("relative_attention_num_buckets") * block.attention.heads
    layers = keys.count("num_layers", most=LAYER_LIMIT)
    writing = replace(decoder, blocks=((block, count),), layer_embedding_parameters=biases)
    reading = _stack(decoder, ((reading_both_ways(block), layers),), 0)
    return joined(writing, replace(reading, layer_embedding_parameters=biases))


def _stack(
    decoder: Architecture, blocks: tuple[tuple[Block, int], ...], positions: int
) -> Architecture:
    """An encoder of these layers, whose embedding of tokens is the decoder's."""
    name = f"{decoder.name} encoder"
    return replace(
        decoder, name=name, vocab=0, tied=True, blocks=blocks, learned_positions=positions
    )
