"""What is one layer of a config made of, before its widths are filled in?

The form in which the layouts (`hybrids`, `per_layer`) hand their layers to `config`.
"""

from typing import Literal, NamedTuple

from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.state_layers import StateLayer

LAYER_LIMIT = 10_000


class Layer(NamedTuple):
    """One layer: its mixer, its feed-forward, and whatever only few families have.

    Attributes:
        attention: The attention layer; `NO_ATTENTION` where there is none.
        state: The recurrent layer, if any.
        feed_forward: Which of the config's feed-forward layers it has.
        cross_decoder: It only reads what others stored.
        norms: Norms over the residual vector where the family's own number does not hold.
        width_ratio: Inner width of its dense feed-forward over the config's.
        extra: GEMMs of further parts.
        extra_values: Further learned values.
        reused: Attention and feed-forward are the weights of an earlier layer.
    """

    attention: Attention
    state: StateLayer | None
    feed_forward: Literal["dense", "routed", "none"]
    cross_decoder: bool = False
    norms: int | None = None
    width_ratio: int = 1
    extra: tuple[Projection, ...] = ()
    extra_values: int = 0
    reused: bool = False
