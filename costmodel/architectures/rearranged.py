"""What becomes of a model whose layers are dealt out anew: between an encoder and a decoder, or
into fewer, wider ones?

Architectures of published systems that start from a known one. Leaves out how such a model is
trained, and which layers bear it.
"""

from collections.abc import Iterator
from dataclasses import replace

from costmodel.architectures.architecture import NO_ATTENTION, Architecture, Block
from costmodel.architectures.encoder_decoder import joined, reading_both_ways
from hardware_profiles.errors import InputError


def dealt_out(model: Architecture, encoder_ratio: float) -> Architecture:
    """The model with a share of all its layers in the encoder and the others in the decoder, one at
    least in each.

    Args:
        model: an encoder-decoder, or a decoder whose layers become the widths of both.
        encoder_ratio: share of the layers that read the prompt and no more, in (0, 1).

    Raises:
        InputError: recurrent or latent layers, which an encoder of this kind does not have, or a
            single layer.

    Example:
        >>> from costmodel.architectures.library import load_model
        >>> deep = dealt_out(load_model("t5-large"), 0.75)
        >>> deep.layers, sum(count for block, count in deep.encoder.blocks if block.attention.heads)
        (12, 36)
    """
    if model.is_recurrent or any(block.attention.is_mla for block, _ in model.blocks):
        raise InputError(
            "only layers of plain attention are dealt out", key="model", value=model.called
        )
    around, reading = _encoder_parts(model)
    whole = model.layers + sum(count for _, count in reading)
    if whole < 2:
        raise InputError(
            "needs a layer for the encoder and one for the decoder", key="model", value=model.called
        )
    first = min(max(round(encoder_ratio * whole), 1), whole - 1)
    decoder = model.without_encoder.with_layers(whole - first)
    block = reading[0][0] if reading else reading_both_ways(decoder.blocks[0][0])
    encoder = model.encoder or replace(
        decoder,
        name=f"{model.name} encoder",
        alias="",
        vocab=0,
        tied=True,
        learned_positions=0,
        layer_embedding_parameters=0,
    )
    return joined(
        decoder,
        replace(encoder, blocks=(*around, (block, first))),
        source_positions=model.source_positions,
    )


def _encoder_parts(model: Architecture) -> tuple[list[tuple[Block, int]], list[tuple[Block, int]]]:
    """Blocks of an encoder before its layers, and its layers; its last block is made anew."""
    own = model.encoder.blocks[:-1] if model.encoder is not None else ()
    return [pair for pair in own if not pair[0].attention.heads], [
        pair for pair in own if pair[0].attention.heads
    ]


def fused(
    model: Architecture, *, attention_ratio: float, fused_ratio: float, width_ratio: float
) -> Architecture:
    """The model where layers have lost their attention, and feed-forward layers that then follow
    each other are one.

    Each kind of layer by itself: layers that attend keep a feed-forward layer of their own; those
    of the others run side by side, as one product of their joined widths.

    Args:
        model: whose layers of attention and dense feed-forward are changed; others stay.
        attention_ratio: share of these layers that keep their attention, in (0, 1].
        fused_ratio: layers that are left of those without attention, over as many as they were, in
            (0, 1].
        width_ratio: mean inner width that is left of a feed-forward layer before it is fused, in
            (0, 1].

    Raises:
        InputError: experts, or an encoder.

    Reference: Bercovich et al., "FFN Fusion" (arXiv:2503.18908), section 3.

    Example:
        >>> from costmodel.architectures.library import load_model
        >>> wide = fused(load_model("llama-3.1-8b"), attention_ratio=0.5, fused_ratio=0.25, width_ratio=1.0)
        >>> [(block.attention.heads, block.feed_forward.width, count) for block, count in wide.blocks]
        [(32, 14336, 16), (0, 57344, 4)]
    """
    if model.is_moe or model.encoder is not None:
        raise InputError(
            "only dense layers of one stack are fused", key="model", value=model.called
        )
    blocks = [
        layer
        for block, count in model.blocks
        for layer in _fused_kind(block, count, attention_ratio, fused_ratio, width_ratio)
    ]
    return replace(model, blocks=tuple(blocks))


def _fused_kind(
    block: Block, count: int, attention_ratio: float, fused_ratio: float, width_ratio: float
) -> Iterator[tuple[Block, int]]:
    f = block.feed_forward
    if not block.attention.heads or not f.width:
        yield block, count
        return
    attending = max(round(attention_ratio * count), 1)
    width = max(round(width_ratio * f.width), 1)
    yield replace(block, feed_forward=replace(f, width=width)), attending
    if attending == count:
        return
    left = max(round(fused_ratio * (count - attending)), 1)
    joint = replace(f, width=round(width * (count - attending) / left))
    yield (
        replace(block, attention=NO_ATTENTION, feed_forward=joint, norms=max(block.norms // 2, 1)),
        left,
    )
