"""In which number format is each part of a model's weights, and how is that written as one word?

`bf16/experts=fp4-g32` holds every matrix in 16 bits but the routed experts. A GGUF file may be
`q4_k:0.8+q6_k:0.2/head=q6_k/embedding=q4_k`: a mix, with an output head and an embedding of their
own. A part that is not named follows a rule of `costmodel.passes.precision`. Leaves out what
formats mean.
"""

from collections import Counter
from typing import NamedTuple

PARTS = ("experts", "head", "embedding")
_LEAST_SHARE = 1e-4  # norms and routers of most models are fewer


class PartFormats(NamedTuple):
    """The formats of a model's parts, each one format or a mix with the share of each; None follows
    the rule.

    Attributes:
        matrices: of attention and dense layers.
        experts: of experts.
        head: of the output head.
        embedding: of the token embedding.
    """

    matrices: str
    experts: str | None = None
    head: str | None = None
    embedding: str | None = None

    @property
    def word(self) -> str:
        """All of it as one word.

        >>> PartFormats("bf16", experts="fp4-g32").word
        'bf16/experts=fp4-g32'
        """
        own = {part: getattr(self, part) for part in PARTS}
        return "/".join([self.matrices, *(f"{part}={name}" for part, name in own.items() if name)])


def read_parts(word: str) -> PartFormats | None:
    """The formats that a word names part by part; None for a word that is not written so.

    >>> read_parts("bf16/experts=fp4-g32").experts
    'fp4-g32'
    """
    matrices, *others = word.split("/")
    named = [other.partition("=") for other in others]
    formats = {part: name for part, _, name in named if part in PARTS and name}
    if not matrices or len(formats) != len(others):
        return None
    return PartFormats(matrices, **formats)


def mixed(values: Counter[str]) -> str:
    """One format, or the mix of several with the share of the values in each; "" for nothing.

    >>> mixed(Counter({"q4_k": 3, "q6_k": 1}))
    'q4_k:0.75+q6_k:0.25'
    """
    total = sum(values.values())
    shares = {name: round(count / total, 6) for name, count in values.most_common() if count}
    kept = {name: share for name, share in shares.items() if share >= _LEAST_SHARE}
    if len(shares) < 2 or len(kept) < 2:
        return next(iter(shares), "")
    return "+".join(f"{name}:{share:.6g}" for name, share in kept.items())
