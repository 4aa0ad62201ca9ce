"""How is a decoder joined to an encoder?

Every attending layer of the decoder gets attention to the encoder's output. Keys and values for it
follow from that output alone, so they are made once per request, by a block at the encoder's end;
afterwards the encoder has no part in decoding. Leaves out what reading and writing cost
(`costmodel.passes.forward`) and configs (`hf.encoder_decoder`).
"""

from dataclasses import replace

from costmodel.architectures.architecture import NO_ATTENTION, NO_FEED_FORWARD, Architecture, Block


def joined(
    decoder: Architecture, encoder: Architecture, *, source_positions: int = 0
) -> Architecture:
    """An encoder-decoder of the two.

    Args:
        decoder: blocks that attend to nothing but what they wrote get cross-attention with as many
            heads, and a norm.
        encoder: its layers alone; an embedding that it shares with the decoder is counted there.
        source_positions: vectors that the encoder reads whatever the prompt; 0: the prompt's
            tokens.

    Example:
        >>> from costmodel.architectures.architecture import FeedForward
        >>> from costmodel.architectures.attention import Attention
        >>> attention = Attention(heads=4, kv_heads=4, head_dim=8)
        >>> block = Block(attention=attention, feed_forward=FeedForward(width=64), norms=2)
        >>> stack = Architecture(name="tiny", hidden=32, vocab=9, tied=True, blocks=((block, 3),), max_context=128)
        >>> both = joined(stack, replace(stack, vocab=0, blocks=((reading_both_ways(block), 2),)))
        >>> both.layers, both.blocks[0][0].sublayers, both.encoder.blocks[-1][0].extra
        (3, 3, (('cross_kv', 64, 32), ('cross_kv', 64, 32), ('cross_kv', 64, 32)))
    """
    blocks = tuple((_attending(block), count) for block, count in decoder.blocks)
    crossing = [
        block.cross for block, count in blocks for _ in range(count) if block.cross is not None
    ]
    cross_products = tuple(("cross_kv", 2 * cross.kv_width, encoder.hidden) for cross in crossing)
    biases = sum(2 * cross.kv_width for cross in crossing if cross.bias)
    last = Block(
        attention=NO_ATTENTION,
        feed_forward=NO_FEED_FORWARD,
        norms=0,
        extra=cross_products,
        extra_values=biases,
    )
    reading = replace(encoder, blocks=(*encoder.blocks, (last, 1)))
    return replace(decoder, blocks=blocks, encoder=reading, source_positions=source_positions)


def reading_both_ways(block: Block) -> Block:
    """A layer of an encoder with the widths of a decoder's."""
    return replace(block, attention=replace(block.attention, mask="both_ways", window=None))


def _attending(block: Block) -> Block:
    if block.cross is not None or not block.attention.heads:
        return block
    cross = replace(block.attention, mask="source", shares_kv=True, window=None)
    return replace(block, cross=cross, norms=block.norms + 1)
