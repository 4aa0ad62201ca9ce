"""What is a model made of? Layers, widths and weights, and every count that follows from them.

An architecture holds shapes only. Costs (FLOPs, bytes, seconds) are derived elsewhere, and so is
the choice of a precision: counts here are of values, not bytes. An encoder-decoder, of text or of
audio, is a decoder that holds its encoder (`hf.encoder_decoder`). A GEMM is written (name, n_out,
k_in): n_out × k_in weights that one token's vector is multiplied by. Left out: the order of the
layers, activation functions, position encodings, and towers for images and audio that feed a
decoder's own sequence, none of which moves the time of a decoding pass.
"""

from dataclasses import dataclass, field, replace

from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.state_layers import StateLayer


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForward:
    """One feed-forward layer, dense or a mixture of experts (MoE).

    Attributes:
        width: Inner width; with experts, the inner width of one expert.
        gated: Three matrices (gate, up, down) instead of two (up, down).
        bias: Matrices, and the router, have biases.
        experts: Routed experts; 0: a dense layer.
        experts_per_token: Routed experts that each token visits.
        shared_width: Inner width of the experts that every token visits, all together; 0: none.
        shared_gate: The shared experts' output is scaled by a learned product with the residual
            vector.
        latent: Length of the vector that routed experts work on, projected from and to the residual
            one; 0: that one.
    """

    width: int
    gated: bool = True
    bias: bool = False
    experts: int = 0
    experts_per_token: int = 0
    shared_width: int = 0
    shared_gate: bool = False
    latent: int = 0

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to experts."""
        return self.experts > 0

    def merged(self) -> "FeedForward":
        """The same layer with its shared experts among the routed ones, where they are alike; every
        token visits them.

        >>> FeedForward(width=64, experts=8, experts_per_token=2, shared_width=64).merged().experts_per_token
        3
        """
        count, rest = divmod(self.shared_width, self.width) if self.is_moe else (0, 0)
        if not count or rest or self.shared_gate or self.latent:
            return self
        more = self.experts_per_token + count
        return replace(self, experts=self.experts + count, experts_per_token=more, shared_width=0)

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that every token runs: the dense layer, or the router and the shared experts.

        Args:
            hidden: Length of the residual vector.

        Returns:
            (name, n_out, k_in) per GEMM.
        """
        if not self.is_moe:
            return self._matrices(hidden, self.width, "") if self.width else ()
        shared = self._matrices(hidden, self.shared_width, "shared_") if self.shared_width else ()
        around = (
            (("latent_down", self.latent, hidden), ("latent_up", hidden, self.latent))
            if self.latent
            else ()
        )
        return (("router", self.experts, hidden), *shared, *around)

    def expert_input(self, hidden: int) -> int:
        """Length of the vector that a routed expert reads and writes, for residual vectors of
        length `hidden`.
        """
        return self.latent or hidden

    def expert_projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs of one routed expert; empty for a dense layer."""
        return (
            self._matrices(self.expert_input(hidden), self.width, "expert_") if self.is_moe else ()
        )

    def expert_parameters(self, hidden: int) -> int:
        """Weights of one routed expert; 0 for a dense layer."""
        return _weights_and_biases(self.expert_projections(hidden), self.bias)

    def parameters(self, hidden: int) -> int:
        """Weights of the layer, all experts and the router included."""
        always = _weights_and_biases(self.projections(hidden), self.bias)
        return always + self.experts * self.expert_parameters(hidden) + hidden * self.shared_gate

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets: all but the experts it is not routed to."""
        unused = self.experts - self.experts_per_token
        return self.parameters(hidden) - unused * self.expert_parameters(hidden)

    def _matrices(self, hidden: int, width: int, prefix: str) -> tuple[Projection, ...]:
        first = (
            (f"{prefix}gate_up", 2 * width, hidden)
            if self.gated
            else (f"{prefix}up", width, hidden)
        )
        return first, (f"{prefix}down", hidden, width)


NO_ATTENTION = Attention(heads=0, kv_heads=1, head_dim=0)
NO_FEED_FORWARD = FeedForward(width=0, gated=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One layer of a model: attention or a recurrent layer, feed-forward and the norms around them.

    Attributes:
        attention: The attention layer; `NO_ATTENTION` where there is none.
        feed_forward: The feed-forward layer; `NO_FEED_FORWARD` where there is none.
        norms: Norms over the residual vector in this layer.
        norm_bias: The norms have a bias beside the scale (LayerNorm).
        cross: Attention to an encoder's output, between attention and feed-forward, if any.
        state: The recurrent layer in the place of attention, if any.
        cross_decoder: The layer stores nothing of its own, so that of a prompt only the last token
            runs it.
        extra: GEMMs of parts that few families have: adapters, links between streams, inputs per
            layer.
        extra_values: Further learned values of the layer, such as the scales of a router.
    """

    attention: Attention
    feed_forward: FeedForward
    norms: int
    norm_bias: bool = False
    cross: Attention | None = None
    state: StateLayer | None = None
    cross_decoder: bool = False
    extra: tuple[Projection, ...] = ()
    extra_values: int = 0

    @property
    def sublayers(self) -> int:
        """Parts that read and add to the residual vector: attention, cross-attention, recurrence,
        feed-forward.
        """
        mixers = (self.attention.heads > 0, self.cross is not None, self.state is not None)
        return sum(mixers) + int(self.feed_forward.width > 0)

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that every token runs in this layer, as (name, n_out, k_in)."""
        state = self.state.projections(hidden) if self.state else ()
        cross = self.cross.projections(hidden) if self.cross else ()
        renamed = tuple((f"cross_{name}", n_out, k_in) for name, n_out, k_in in cross)
        return (
            *self.attention.projections(hidden),
            *renamed,
            *state,
            *self.feed_forward.projections(hidden),
            *self.extra,
        )

    def parameters(self, hidden: int) -> int:
        """Weights of the layer for residual vectors of length `hidden`."""
        norms = self.norms * hidden * (2 if self.norm_bias else 1)
        state = self.state.parameters(hidden) if self.state else 0
        cross = self.cross.parameters(hidden) if self.cross else 0
        own = norms + cross + _weights(self.extra) + self.extra_values
        return (
            self.attention.parameters(hidden) + state + self.feed_forward.parameters(hidden) + own
        )

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        feed_forward = self.feed_forward
        idle = feed_forward.parameters(hidden) - feed_forward.active_parameters(hidden)
        return self.parameters(hidden) - idle


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """A decoder: its blocks, embedding and output head, and the encoder whose output it attends to,
    if any.

    Attributes:
        name: Name of the record, by which recordings and measured passes of the model are found.
        hidden: Length of the residual vector.
        vocab: Rows of the embedding and of the output head, padding rows included.
        tied: The output head is the embedding matrix.
        blocks: Distinct layers, each with how many of it there are; the order of the layers is not
            kept.
        max_context: Longest context the model was published for, in tokens.
        final_norm: Learned vectors of length `hidden` after the last layer: 1 RMSNorm, 2 LayerNorm,
            0 none.
        learned_positions: Rows of a learned position embedding; 0: positions are computed.
        dtype: Number format of the stored matrices, as a device names it ("bf16", "fp8", …).
        model_type: Family the file stated ("llama", "qwen3_moe", …).
        mtp_layers: Multi-token-prediction layers shipped beside the model; not counted in any total
            here.
        repeated_parameters: Weights of layers that are one layer used again: read whenever it runs,
            held once.
        layer_embedding_parameters: Values of further embeddings, whose rows enter the layers, and
            of their norm.
        encoder: What reads a prompt before this model writes; its last block makes
            cross-attention's keys and values.
        source_positions: Vectors that the encoder reads whatever the prompt (audio); 0: the
            prompt's tokens.
        source: "shipped", or the path that the architecture was read from.
        read_as: How a name that is none of ours was understood, in words; "" where it is one, or a
            path.
        alias: Another of its names, by which it was asked for; "" where that was `name`.

    Example:
        >>> attention = Attention(heads=4, kv_heads=2, head_dim=8)
        >>> block = Block(attention=attention, feed_forward=FeedForward(width=64), norms=2)
        >>> tiny = Architecture(
        ...     name="tiny", hidden=32, vocab=100, tied=True, blocks=((block, 3),), max_context=128
        ... )
        >>> tiny.layers, tiny.kv_values_per_token, tiny.parameters
        (3, 96, 31072)
    """

    name: str
    hidden: int
    vocab: int
    tied: bool
    blocks: tuple[tuple[Block, int], ...]
    max_context: int
    final_norm: int = 1
    learned_positions: int = 0
    dtype: str = "bf16"
    model_type: str = ""
    mtp_layers: int = 0
    repeated_parameters: int = 0
    layer_embedding_parameters: int = 0
    encoder: "Architecture | None" = None
    source_positions: int = 0
    source: str = ""
    read_as: str = ""
    # another name of the same model makes it no other model
    alias: str = field(default="", compare=False)

    @property
    def called(self) -> str:
        """What messages call it: the name that was asked for."""
        return self.alias or self.name

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(count for _, count in self.blocks)

    @property
    def embedding_parameters(self) -> int:
        """Values of the input embedding, learned positions and embeddings per layer included."""
        return (self.vocab + self.learned_positions) * self.hidden + self.layer_embedding_parameters

    @property
    def head_parameters(self) -> int:
        """Values of the output head; when tied they are the embedding's own."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All weights, each counted once."""
        layers = sum(count * block.parameters(self.hidden) for block, count in self.blocks)
        return self._all_but_layers + layers - self.repeated_parameters + self._encoder_parameters

    @property
    def active_parameters(self) -> int:
        """Weights less the experts that a token is not routed to; embedding and head count."""
        visited = sum(count * block.active_parameters(self.hidden) for block, count in self.blocks)
        return self._all_but_layers + visited - self.repeated_parameters + self._encoder_parameters

    @property
    def routed_parameters(self) -> int:
        """Weights of the routed experts of all layers."""
        return sum(
            count * block.feed_forward.experts * block.feed_forward.expert_parameters(self.hidden)
            for block, count in self.blocks
        )

    @property
    def kv_values_per_token(self) -> int:
        """Values stored in the KV cache per token over all layers, windows not considered.

        Of a text that an encoder reads, its tokens' keys and values for cross-attention are as wide
        as those of tokens that the decoder writes.
        """
        return sum(count * block.attention.kv_values_per_token for block, count in self.blocks)

    @property
    def state_values(self) -> int:
        """Values of one request's recurrent states over all layers, convolution windows left
        out.
        """
        return sum(count * block.state.state_values for block, count in self.blocks if block.state)

    @property
    def is_recurrent(self) -> bool:
        """Whether any layer keeps a state instead of keys and values."""
        return any(block.state is not None for block, _ in self.blocks)

    @property
    def weight_values(self) -> int:
        """Values that a decode pass reads when its tokens visit all experts.

        Everything but an encoder and the input embedding, of which only the tokens' rows are read;
        the head is read whole, even where it is the embedding's own matrix.
        """
        read = (
            self.parameters
            - self._encoder_parameters
            + self.repeated_parameters
            - self.embedding_parameters
        )
        return read + (self.head_parameters if self.tied else 0)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes its tokens to experts."""
        return any(block.feed_forward.is_moe for block, _ in self.blocks)

    @property
    def decodes_blocks(self) -> bool:
        """Whether tokens of a block see each other both ways, so that no causal pass decodes or
        verifies them: masked models, and models of masked blocks.
        """
        attentions = (block.attention for block, _ in self.blocks)
        return any(one.mask == "causal" and one.block_tokens != 1 for one in attentions)

    def with_layers(self, layers: int) -> "Architecture":
        """The same model with `layers` layers, all of its most frequent block.

        Args:
            layers: Number of layers, at least 0.

        Returns:
            A new architecture; blocks other than the most frequent one are dropped. With recurrent
            layers all blocks keep their share, but a single layer is one of attention and
            feed-forward where they exist.
        """
        if self.is_recurrent and layers != 1:
            return replace(self, blocks=_shared_out(self.blocks, layers), repeated_parameters=0)
        block, _ = max(self.blocks, key=lambda pair: pair[1])
        if self.is_recurrent:
            block = _attention_block(self.blocks, block)
        return replace(self, blocks=((block, layers),), repeated_parameters=0)

    @property
    def cross_decoder(self) -> "Architecture | None":
        """The layers that of a prompt only the last token runs; None: all run for every token."""
        blocks = tuple(pair for pair in self.blocks if pair[0].cross_decoder)
        return replace(self, blocks=blocks, repeated_parameters=0) if blocks else None

    @property
    def without_encoder(self) -> "Architecture":
        """The decoder alone, whose layers attend to nothing but what they wrote."""
        blocks = tuple(
            (
                # cross-attention takes its norm along
                block if block.cross is None else replace(block, cross=None, norms=block.norms - 1),
                count,
            )
            for block, count in self.blocks
        )
        return replace(self, encoder=None, source_positions=0, blocks=blocks)

    @property
    def _encoder_parameters(self) -> int:
        return self.encoder.parameters if self.encoder is not None else 0

    @property
    def _all_but_layers(self) -> int:
        head = 0 if self.tied else self.head_parameters
        return self.embedding_parameters + head + self.final_norm * self.hidden


def _weights(projections: tuple[Projection, ...]) -> int:
    return sum(n_out * k_in for _, n_out, k_in in projections)


def _weights_and_biases(projections: tuple[Projection, ...], bias: bool) -> int:
    return _weights(projections) + (sum(n_out for _, n_out, _ in projections) if bias else 0)


def _attention_block(blocks: tuple[tuple[Block, int], ...], frequent: Block) -> Block:
    """A layer of attention and feed-forward, from different blocks where none has both; else the
    given block.
    """
    attending = [
        block for block, _ in blocks if block.attention.heads and not block.attention.shares_kv
    ]
    feeding = [block.feed_forward for block, _ in blocks if block.feed_forward.width]
    if not attending or not feeding:
        return frequent
    block = attending[0]
    return (
        block
        if block.feed_forward.width
        else replace(block, feed_forward=feeding[0], norms=2 * block.norms)
    )


def _shared_out(
    blocks: tuple[tuple[Block, int], ...], layers: int
) -> tuple[tuple[Block, int], ...]:
    """`layers` layers in the proportions of `blocks`, by largest remainder."""
    total = sum(count for _, count in blocks)
    quotas = [layers * count / total for _, count in blocks]
    whole = [int(quota) for quota in quotas]
    # largest remainder: layers that are left go to the blocks cut short most
    order = sorted(range(len(blocks)), key=lambda i: whole[i] - quotas[i])
    for i in order[: layers - sum(whole)]:
        whole[i] += 1
    return tuple((block, count) for (block, _), count in zip(blocks, whole, strict=True) if count)
