"""What is a model made of? Layers, widths and weights, and every count that follows from them.

An architecture holds shapes only. Costs (FLOPs, bytes, seconds) are derived elsewhere, and so is the choice
of a precision: counts here are of values, not bytes. Left out: the order of the layers, activation functions,
position encodings and vision or audio towers, none of which moves the time of a decoding pass.

A GEMM is written (name, n_out, k_in): n_out × k_in weights that one token's vector is multiplied by.
"""

from dataclasses import dataclass, replace

from costmodel.architectures.state_layers import StateLayer

Projection = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """One attention layer: grouped-query attention, or latent attention (MLA) where kv_lora_rank > 0.

    Attributes:
        heads: Query heads.
        kv_heads: Key/value heads; divides `heads`. 1 with MLA, whose heads share one latent vector.
        head_dim: Length of a query head (with MLA: nope_dim + rope_dim).
        window: Positions that a query sees, itself included; None: all of them.
        bias: Query, key and value projections have biases (with MLA: the down-projections).
        output_bias: The output projection has a bias.
        qk_norm: Queries and keys are normalised per head.
        sinks: Every head has one learned sink logit.
        gated: The query projection also makes a gate for the output, of the same width.
        shares_kv: Keys and values are another layer's: read, but neither projected nor stored here.
        kv_lora_rank: MLA: length of the latent vector that stands for keys and values.
        q_lora_rank: Rank of the query projection; 0: not factored. Also without MLA: multi-matrix factorisation
            attention (MFA), whose query heads share one low-rank product.
        rope_dim: MLA: rotated part of a key, shared by all heads and stored beside the latent vector.
        nope_dim: MLA: unrotated part of a head's query.
        value_dim: MLA: length of a head's value.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    gated: bool = False
    shares_kv: bool = False
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    value_dim: int = 0

    @property
    def is_mla(self) -> bool:
        """Whether keys and values are stored as one latent vector per token."""
        return self.kv_lora_rank > 0

    @property
    def query_width(self) -> int:
        """Length of all query heads together."""
        return self.heads * (self.nope_dim + self.rope_dim if self.is_mla else self.head_dim)

    @property
    def kv_width(self) -> int:
        """Length of all key heads together; with MLA the latent vector and the rotated key part."""
        return self.kv_lora_rank + self.rope_dim if self.is_mla else self.kv_heads * self.head_dim

    @property
    def output_width(self) -> int:
        """Length of the vector that enters the output projection."""
        return self.heads * (self.value_dim if self.is_mla else self.head_dim)

    @property
    def kv_values_per_token(self) -> int:
        """Values stored in the KV cache per token by this layer, windows not considered."""
        if self.shares_kv:
            return 0
        return self.kv_width if self.is_mla else 2 * self.kv_width

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that one token runs around the attention itself.

        With MLA, `kv_up` stands for both halves of the key/value up-projection: absorbed into the query and
        the output, they cost a token the multiplications and weight reads of one matrix of this shape.

        Args:
            hidden: Length of the residual vector.

        Returns:
            (name, n_out, k_in) per GEMM; their products sum to the layer's projection weights.

        Reference:
            DeepSeek-AI, "DeepSeek-V2" (arXiv:2405.04434), §2.1, eqs. 9–19; Hu et al., "Multi-matrix Factorization
            Attention" (arXiv:2412.19255), for a factored query without MLA.
        """
        if not self.heads:
            return ()
        output = ("output", hidden, self.output_width)
        rank = self.q_lora_rank
        if not self.is_mla and rank:
            return ("q_down", rank, hidden), ("q_up", self.query_width, rank), ("kv", 2 * self.kv_width, hidden), output
        if not self.is_mla:
            own_kv = 0 if self.shares_kv else 2 * self.kv_width
            return ("qkv", self.query_width * (2 if self.gated else 1) + own_kv, hidden), output
        query: tuple[Projection, ...] = (("q", self.query_width, hidden),)
        if rank:
            query = ("q_down", rank, hidden), ("q_up", self.query_width, rank)
        up_width = self.heads * (self.nope_dim + self.value_dim)
        return (*query, ("kv_down", self.kv_width, hidden), ("kv_up", up_width, self.kv_lora_rank), output)

    def parameters(self, hidden: int) -> int:
        """Weights of the layer: projections, biases, head norms and sinks."""
        biases = 0
        if self.bias:
            own_kv = 0 if self.shares_kv else 2 * self.kv_width
            biases = self.q_lora_rank + self.kv_width if self.is_mla else self.query_width + own_kv
        norms = 2 * self.head_dim if self.qk_norm else 0
        norms += self.q_lora_rank + self.kv_lora_rank
        extra = hidden * self.output_bias + self.heads * self.sinks
        return _weights(self.projections(hidden)) + biases + norms + extra


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
        shared_gate: The shared experts' output is scaled by a learned product with the residual vector.
    """

    width: int
    gated: bool = True
    bias: bool = False
    experts: int = 0
    experts_per_token: int = 0
    shared_width: int = 0
    shared_gate: bool = False

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to experts."""
        return self.experts > 0

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
        return (("router", self.experts, hidden), *shared)

    def expert_projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs of one routed expert; empty for a dense layer."""
        return self._matrices(hidden, self.width, "expert_") if self.is_moe else ()

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
        first = (f"{prefix}gate_up", 2 * width, hidden) if self.gated else (f"{prefix}up", width, hidden)
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
        state: The recurrent layer in the place of attention, if any.
        cross_decoder: The layer stores nothing of its own, so that of a prompt only the last token runs it.
    """

    attention: Attention
    feed_forward: FeedForward
    norms: int
    norm_bias: bool = False
    state: StateLayer | None = None
    cross_decoder: bool = False

    @property
    def sublayers(self) -> int:
        """Parts that read and add to the residual vector: attention, recurrence, feed-forward."""
        feed_forward = self.feed_forward.width > 0
        return int(self.attention.heads > 0) + int(self.state is not None) + int(feed_forward)

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that every token runs in this layer, as (name, n_out, k_in)."""
        state = self.state.projections(hidden) if self.state else ()
        return (*self.attention.projections(hidden), *state, *self.feed_forward.projections(hidden))

    def parameters(self, hidden: int) -> int:
        """Weights of the layer for residual vectors of length `hidden`."""
        norms = self.norms * hidden * (2 if self.norm_bias else 1)
        state = self.state.parameters(hidden) if self.state else 0
        return self.attention.parameters(hidden) + state + self.feed_forward.parameters(hidden) + norms

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        feed_forward = self.feed_forward
        idle = feed_forward.parameters(hidden) - feed_forward.active_parameters(hidden)
        return self.parameters(hidden) - idle


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """A decoder: its blocks, embedding and output head.

    Attributes:
        name: What the model is called in answers and messages.
        hidden: Length of the residual vector.
        vocab: Rows of the embedding and of the output head, padding rows included.
        tied: The output head is the embedding matrix.
        blocks: Distinct layers, each with how many of it there are; the order of the layers is not kept.
        max_context: Longest context the model was published for, in tokens.
        final_norm: Learned vectors of length `hidden` after the last layer: 1 RMSNorm, 2 LayerNorm, 0 none.
        learned_positions: Rows of a learned position embedding; 0: positions are computed.
        dtype: Number format of the stored matrices, as a device names it ("bf16", "fp8", …).
        model_type: Family the file stated ("llama", "qwen3_moe", …).
        mtp_layers: Multi-token-prediction layers shipped beside the model; not counted in any total here.
        source: "shipped", or the path that the architecture was read from.

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
    source: str = ""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(count for _, count in self.blocks)

    @property
    def embedding_parameters(self) -> int:
        """Values of the input embedding, learned positions included."""
        return (self.vocab + self.learned_positions) * self.hidden

    @property
    def head_parameters(self) -> int:
        """Values of the output head; when tied they are the embedding's own."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All weights, each counted once."""
        layers = sum(count * block.parameters(self.hidden) for block, count in self.blocks)
        return self._all_but_layers + layers

    @property
    def active_parameters(self) -> int:
        """Weights less the experts that a token is not routed to; embedding and head count."""
        visited = sum(count * block.active_parameters(self.hidden) for block, count in self.blocks)
        return self._all_but_layers + visited

    @property
    def kv_values_per_token(self) -> int:
        """Values stored in the KV cache per token over all layers, windows not considered."""
        return sum(count * block.attention.kv_values_per_token for block, count in self.blocks)

    @property
    def state_values(self) -> int:
        """Values of one request's recurrent states over all layers, convolution windows left out."""
        return sum(count * block.state.state_values for block, count in self.blocks if block.state)

    @property
    def is_recurrent(self) -> bool:
        """Whether any layer keeps a state instead of keys and values."""
        return any(block.state is not None for block, _ in self.blocks)

    @property
    def weight_values(self) -> int:
        """Values that a decode pass reads when its tokens visit all experts.

        Everything but the input embedding, of which only the tokens' rows are read; the head is read whole,
        even where it is the embedding's own matrix.
        """
        return self.parameters - self.embedding_parameters + (self.head_parameters if self.tied else 0)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes its tokens to experts."""
        return any(block.feed_forward.is_moe for block, _ in self.blocks)

    def with_layers(self, layers: int) -> "Architecture":
        """The same model with `layers` layers, all of its most frequent block.

        Args:
            layers: Number of layers, at least 0.

        Returns:
            A new architecture; blocks other than the most frequent one are dropped. With recurrent layers all
            blocks keep their share, but a single layer is one of attention and feed-forward where they exist.
        """
        if self.is_recurrent and layers != 1:
            return replace(self, blocks=_shared_out(self.blocks, layers))
        block, _ = max(self.blocks, key=lambda pair: pair[1])
        if self.is_recurrent:
            block = _attention_block(self.blocks, block)
        return replace(self, blocks=((block, layers),))

    @property
    def _all_but_layers(self) -> int:
        head = 0 if self.tied else self.head_parameters
        return self.embedding_parameters + head + self.final_norm * self.hidden


def _weights(projections: tuple[Projection, ...]) -> int:
    return sum(n_out * k_in for _, n_out, k_in in projections)


def _weights_and_biases(projections: tuple[Projection, ...], bias: bool) -> int:
    return _weights(projections) + (sum(n_out for _, n_out, _ in projections) if bias else 0)


def _attention_block(blocks: tuple[tuple[Block, int], ...], frequent: Block) -> Block:
    """A layer of attention and feed-forward, from different blocks where none has both; else the given block."""
    attending = [block for block, _ in blocks if block.attention.heads and not block.attention.shares_kv]
    feeding = [block.feed_forward for block, _ in blocks if block.feed_forward.width]
    if not attending or not feeding:
        return frequent
    block = attending[0]
    return block if block.feed_forward.width else replace(block, feed_forward=feeding[0], norms=2 * block.norms)


def _shared_out(blocks: tuple[tuple[Block, int], ...], layers: int) -> tuple[tuple[Block, int], ...]:
    """`layers` layers in the proportions of `blocks`, by largest remainder."""
    total = sum(count for _, count in blocks)
    quotas = [layers * count / total for _, count in blocks]
    whole = [int(quota) for quota in quotas]
    order = sorted(range(len(blocks)), key=lambda i: whole[i] - quotas[i])
    for i in order[: layers - sum(whole)]:
        whole[i] += 1
    return tuple((block, count) for (block, _), count in zip(blocks, whole, strict=True) if count)
