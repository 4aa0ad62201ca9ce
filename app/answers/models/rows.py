"""What does `models` answer? Models, prices of their tokens, or a draft model that was cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from hardware_profiles.units import GIGA, KILO


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRow(Row):
    """A model architecture in a list."""

    name: Annotated[str, Column("As `--model` takes it.")]
    model_type: Annotated[str, Column("Family that its config states.", "type")]
    layers: Annotated[int, Column("Number of layers.")]
    hidden: Annotated[int, Column("Length of the residual vector.", "width")]
    vocab: Annotated[int, Column("Rows of the embedding.")]
    parameters: Annotated[int, Column("Of the whole model.")]
    active_parameters: Annotated[int, Column("That one token uses.")]
    kv_values_per_token: Annotated[int, Column("Cached values of a token.")]
    max_context: Annotated[int, Column("Longest context that it was published for, in tokens.")]
    dtype: Annotated[str, Column("Number format of the published checkpoint.")]
    source: Annotated[str, Column("`shipped`, or the path that it was read from.")]

    @property
    def parameters_billions(
        self,
    ) -> Annotated[
        float, Column("Parameters.", "parameters (10⁹)", decimals=3, of=("parameters",))
    ]:
        """Parameters in billions."""
        return self.parameters / GIGA

    @property
    def active_billions(
        self,
    ) -> Annotated[
        float, Column("Active ones.", "active (10⁹)", decimals=3, of=("active_parameters",))
    ]:
        """Parameters that one token uses, in billions."""
        return self.active_parameters / GIGA

    @property
    def kv_kilobytes(
        self,
    ) -> Annotated[
        float,
        Column("Cache.", "KV kB/token (16-bit)", decimals=1, of=("kv_values_per_token",)),
    ]:
        """Cache of a token in kB, at two bytes a value."""
        return self.kv_values_per_token * 2 / KILO


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenPriceRow(Row):
    """Least dollars of a million decoded tokens."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device, or that each part is on its cheapest.")]
    attention_usd_per_million: Annotated[
        float, Column("Attention with its projections.", "attention", decimals=4)
    ]
    feed_forward_usd_per_million: Annotated[
        float, Column("Feed-forward layers.", "feed-forward", decimals=4)
    ]
    usd_per_million: Annotated[float, Column("Both parts.", "together", decimals=4)]


@dataclass(frozen=True, kw_only=True)
class Models(Answer):
    """Model architectures, and what their tokens cost where that was asked.

    Attributes:
        models: a row each.
        prices: a row for every model and device, and one with each part on its cheapest.
    """

    name: ClassVar[str] = "models"
    models: Sequence[ModelRow]
    prices: Sequence[TokenPriceRow] | None = None

    @property
    def own_rows(self) -> Sequence[ModelRow | TokenPriceRow]:
        """The prices, where they were asked for, or the models."""
        return self.models if self.prices is None else self.prices

    def shown(self) -> Iterator[Table]:
        """The prices or the models."""
        if self.prices is None:
            columns = ["name", "model_type", "layers", "hidden"]
            columns += ["parameters_billions", "active_billions", "kv_kilobytes"]
            yield Table(title="Models", rows=self.models, columns=columns)
            return
        yield Table(
            title=(
                f"Least dollars per million tokens, context {self.inputs['context']:,},"
                f" {self.inputs['dtype']}"
            ),
            rows=self.prices,
            columns=list(TokenPriceRow.__dataclass_fields__),
            caption="lower bounds: every device at its roofs, weights read for nothing",
            kind=TokenPriceRow,
        )


@dataclass(frozen=True, kw_only=True)
class DraftModel(Answer):
    """A draft model that was cut out of a model's layers.

    Attributes:
        file: the .gguf file that was written.
        layers: of the whole model that are left.
        whole_layers: of the whole model.
        tensor_bytes: of its tensors.
        whole_tensor_bytes: of the whole model's.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    file: Path
    layers: Sequence[int]
    whole_layers: int
    tensor_bytes: int
    whole_tensor_bytes: int

    @property
    def own_rows(self) -> Sequence[Row]:
        """None: it is a file."""
        return ()

    def shown(self) -> Iterator[str]:
        """Where it is, how large, and how to draft with it."""
        share = self.tensor_bytes / self.whole_tensor_bytes
        yield (
            f"wrote {self.file}: {len(self.layers)} of {self.whole_layers} layers, {share:.0%} of"
            " the bytes"
        )
        yield (
            f"draft with it: rooftree predict --model {self.inputs['model']} --draft {self.file}"
            " --method speculative-decoding"
        )
