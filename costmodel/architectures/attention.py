"""What does one attention layer hold: grouped-query, latent, factored or indexed?

Shapes and the counts that follow from them; what reading its cache costs is `passes`. A GEMM is
written (name, n_out, k_in): n_out × k_in weights that one token's vector is multiplied by.
"""

from dataclasses import dataclass
from typing import Literal

Projection = tuple[str, int, int]
AttentionMask = Literal["causal", "both_ways", "source"]

_SCALE_BYTES = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """One attention layer: grouped-query attention, or latent attention (MLA) where kv_lora_rank >
    0.

    Attributes:
        heads: Query heads.
        kv_heads: Key/value heads; divides `heads`. 1 with MLA, whose heads share one latent vector.
        head_dim: Length of a query head (with MLA: nope_dim + rope_dim).
        window: Positions that a query sees, itself included; None: all of them.
        bias: Query, key and value projections have biases (with MLA: the down-projections).
        output_bias: The output projection has a bias.
        qk_norm: Queries and keys are normalised per head.
        qk_norm_joint: The same norms span all heads together.
        sinks: Every head has one learned sink logit.
        gated: The query projection also makes a gate for the output, of the same width.
        shares_kv: Keys and values are another layer's: read, but neither projected nor stored here.
        value_is_key: One projection makes what keys and values are both normalised from; both are
            stored.
        input_ratio: Length of the vector that queries, keys and values are projected from, over
            that of the residual.
        kv_lora_rank: MLA: length of the latent vector that stands for keys and values.
        q_lora_rank: Rank of the query projection; 0: not factored. Also without MLA: multi-matrix
            factorisation attention (MFA), whose query heads share one low-rank product.
        rope_dim: MLA: rotated part of a key, shared by all heads and stored beside the latent
            vector.
        nope_dim: MLA: unrotated part of a head's query.
        value_dim: MLA: length of a head's value.
        index_tokens: Cached tokens that a query token attends to, chosen by an indexer; 0: all of
            them.
        index_heads: Query heads of the indexer; 0 with `index_tokens`: an earlier layer's choice is
            taken over.
        index_dim: Length of an indexer's query head and of its one key, which is cached beside the
            latent vector.
        mask: What a query sees: `causal`, what stands before it; `both_ways`, all of a text that is
            read at once (an encoder's layers); `source`, the output of an encoder
            (cross-attention), whose keys and values are made once per request and not here.
        block_tokens: Under `causal`, new tokens that see each other both ways (block diffusion); 0:
            all of a pass do, and everything that is cached (masked diffusion).
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    qk_norm_joint: bool = False
    sinks: bool = False
    gated: bool = False
    shares_kv: bool = False
    value_is_key: bool = False
    input_ratio: int = 1
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    value_dim: int = 0
    index_tokens: int = 0
    index_heads: int = 0
    index_dim: int = 0
    mask: AttentionMask = "causal"
    block_tokens: int = 1

    @property
    def expands_prompts(self) -> bool:
        """Whether prompts attend to keys and values expanded from the latent vectors of all tokens
        before them.
        """
        return self.is_mla and not self.index_tokens

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
        """Values stored in the KV cache per token by this layer, windows and an indexer's key not
        considered.
        """
        if self.shares_kv:
            return 0
        return self.kv_width if self.is_mla else 2 * self.kv_width

    @property
    def index_bytes_per_token(self) -> float:
        """Bytes of an indexer's key per token, which the published kernels keep in 8 bits with one
        32-bit scale.
        """
        return self.index_dim + _SCALE_BYTES if self.index_heads else 0.0

    @property
    def _projected_kv(self) -> int:
        """Keys and values that this layer's own projection makes."""
        return 0 if self.shares_kv else self.kv_width * (1 if self.value_is_key else 2)

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that one token runs around the attention itself.

        With MLA, `kv_up` stands for both halves of the key/value up-projection: absorbed into the
        query and the output, they cost a token the multiplications and weight reads of one matrix
        of this shape.

        Args:
            hidden: Length of the residual vector.

        Returns:
            (name, n_out, k_in) per GEMM; their products sum to the layer's projection weights.

        Reference:
            DeepSeek-AI, "DeepSeek-V2" (arXiv:2405.04434), §2.1, eqs. 9–19; Hu et al., "Multi-matrix
            Factorization Attention" (arXiv:2412.19255), for a factored query without MLA.
        """
        if not self.heads:
            return ()
        output = ("output", hidden, self.output_width)
        rank = self.q_lora_rank
        if not self.is_mla and rank:
            return (
                ("q_down", rank, hidden),
                ("q_up", self.query_width, rank),
                ("kv", 2 * self.kv_width, hidden),
                output,
            )
        if not self.is_mla:
            width = self.query_width * (2 if self.gated else 1) + self._projected_kv
            return ("qkv", width, hidden * self.input_ratio), output
        query: tuple[Projection, ...] = (("q", self.query_width, hidden),)
        if rank:
            query = ("q_down", rank, hidden), ("q_up", self.query_width, rank)
        up_width = self.heads * (self.nope_dim + self.value_dim)
        latent = (
            *query,
            ("kv_down", self.kv_width, hidden),
            ("kv_up", up_width, self.kv_lora_rank),
            output,
        )
        if not self.index_heads:
            return latent
        index_q = ("index_q", self.index_heads * self.index_dim, rank or hidden)
        return (
            *latent,
            index_q,
            ("index_k", self.index_dim, hidden),
            ("index_weights", self.index_heads, hidden),
        )

    def parameters(self, hidden: int) -> int:
        """Weights of the layer: projections, biases, head norms and sinks."""
        biases = 0
        if self.bias:
            biases = (
                self.q_lora_rank + self.kv_width
                if self.is_mla
                else self.query_width + self._projected_kv
            )
        norms = self._head_norms + self.q_lora_rank + self.kv_lora_rank
        norms += 2 * self.index_dim if self.index_heads else 0
        extra = hidden * self.output_bias + self.heads * self.sinks
        weights = sum(n_out * k_in for _, n_out, k_in in self.projections(hidden))
        return weights + biases + norms + extra

    @property
    def _head_norms(self) -> int:
        if not self.qk_norm:
            return 0
        if self.qk_norm_joint:
            return self.query_width + self.kv_width
        return self.head_dim * (1 if self.shares_kv else 2)
