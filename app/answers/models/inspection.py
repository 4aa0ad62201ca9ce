"""What is a model made of, and what of that was assumed? The answer of `models inspect`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table, columns_of
from costmodel.architectures.architecture import Architecture, Block
from costmodel.architectures.hf.config import Reading
from costmodel.architectures.hf.draft_head import DraftHead
from costmodel.architectures.library import head_of, load_reading, model_card
from costmodel.passes.memory import kv_bytes, state_bytes, weight_bytes
from costmodel.passes.precision import Precision, precision
from hardware_profiles.errors import InputError
from hardware_profiles.units import GIGA, KILO, MEGA, format_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerRow(Row):
    """Layers of a model that are alike."""

    layers: Annotated[int, Column("How many there are.")]
    heads: Annotated[int, Column("Query heads; 0: no attention.")]
    kv_heads: Annotated[int, Column("Heads of keys and values.")]
    head_dim: Annotated[int, Column("Width of a head.")]
    window: Annotated[int | None, Column("Last tokens that attention reads.")]
    latent: Annotated[int, Column("Length of the latent vector that is cached; 0: none.")]
    attends_to: Annotated[int, Column("Tokens that an index chooses to read; 0: all.")]
    state: Annotated[str, Column("Kind of recurrent layer.", "recurrent")]
    feed_forward: Annotated[int, Column("Inner width of the feed-forward layer or an expert.")]
    experts: Annotated[int, Column("Routed experts; 0: dense.")]
    experts_per_token: Annotated[int, Column("Experts that a token visits.")]
    shared_width: Annotated[int, Column("Inner width of what every token visits beside them.")]

    @property
    def attention(self) -> Annotated[str, Column("Attention.", of=("heads", "kv_heads"))]:
        """Heads, and which tokens they read."""
        if not self.heads:
            return ""
        words = (
            f"{self.heads} heads over a latent vector of {self.latent}"
            if self.latent
            else f"{self.heads} heads, {self.kv_heads} of keys and values, {self.head_dim} wide"
        )
        words += f", window {self.window:,}" if self.window else ""
        return words + (f", {self.attends_to:,} chosen tokens" if self.attends_to else "")

    @property
    def width(self) -> Annotated[str, Column("Widths.", "feed-forward", of=("feed_forward",))]:
        """Width of the feed-forward layer, and of its experts."""
        words = f"{self.feed_forward:,}" if self.feed_forward else ""
        if not self.experts:
            return words
        words = f"{self.experts} experts of {words}, {self.experts_per_token} a token"
        return words + (f", shared {self.shared_width:,}" if self.shared_width else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParametersByPart(Row):
    """Parameters of a model by part; they sum to all of them."""

    embedding: Annotated[int, Column("Embedding of tokens.", "input embedding")]
    attention: Annotated[int, Column("Self-attention and cross-attention.")]
    recurrent: Annotated[int, Column("State-space and linear layers.", "recurrent layers")]
    feed_forward: Annotated[
        int, Column("What every token visits.", "feed-forward, shared experts and routers")
    ]
    experts: Annotated[int, Column("What the router chooses from.", "routed experts")]
    other: Annotated[int, Column("The rest.", "norms and further parts")]
    head: Annotated[int, Column("Where it is not the embedding.", "output head")]
    encoder: Annotated[
        int | None,
        Column("What reads the prompt.", "encoder, and what it makes for cross-attention"),
    ] = None
    used_again: Annotated[
        int | None, Column("Counted above, below 0.", "layers used again, held once")
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterPart(Row):
    """A part of a model's parameters."""

    part: Annotated[str, Column("Which.")]
    billions: Annotated[float, Column("Parameters.", decimals=3)]
    percent: Annotated[float, Column("Share of all parameters.", "%", decimals=1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCardRow(Row):
    """What a shipped model's file says of its own numbers."""

    official_parameters: Annotated[float | None, Column("As its makers state them.")]
    official_source: Annotated[str, Column("Where they state them.")]
    config_source: Annotated[str, Column("Where the shapes were read.")]
    note: Annotated[str, Column("What a reader of the count should know.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDescription(Row):
    """Everything that is known of a model."""

    name: Annotated[str, Column("What it is called.")]
    source: Annotated[str, Column("`shipped`, or the path that it was read from.")]
    read_as: Annotated[str, Column("How a name or a config was understood, in words.")]
    model_type: Annotated[str, Column("Family that its config states.")]
    layers: Annotated[int, Column("Number of layers.")]
    hidden: Annotated[int, Column("Length of the residual vector.")]
    vocab: Annotated[int, Column("Rows of the embedding.")]
    max_context: Annotated[int, Column("Longest context that it was published for, in tokens.")]
    tied: Annotated[bool, Column("Whether the output head is the embedding.")]
    parameters: Annotated[int, Column("Of the whole model.")]
    active_parameters: Annotated[int, Column("That one token uses.")]
    parameters_by_part: Annotated[ParametersByPart, Column("They sum to all of them.")]
    dtype: Annotated[str, Column("Number format of the weights.")]
    quantiser: Annotated[str, Column("Who quantised the weights.")]
    quantiser_known: Annotated[bool, Column("Whether its number format is known.")]
    weight_bytes: Annotated[float, Column("Of all weights.", unit="bytes")]
    kv_bytes_per_token: Annotated[Mapping[str, float], Column("Cache of a token by number format.")]
    state_bytes_per_request: Annotated[float, Column("Recurrent states.", unit="bytes")]
    mtp_layers: Annotated[int, Column("Multi-token-prediction layers beside the model.")]
    blocks: Annotated[Sequence[LayerRow], Column("Layers that are alike, together.")]
    assumed: Annotated[
        Mapping[str, object], Column("Defaults of its class for keys that the config leaves out.")
    ]
    card: Annotated[ModelCardRow | None, Column("Sources of a shipped model.")]


@dataclass(frozen=True, kw_only=True)
class InspectedModel(Answer):
    """What a config, an id or a shipped name holds.

    Attributes:
        model: None where the file describes nothing but a draft head.
        draft_head: None where it is none.
    """

    name: ClassVar[str] = "model"
    model: ModelDescription | None
    draft_head: DraftHead | None

    @property
    def own_rows(self) -> Sequence[LayerRow]:
        """The layers."""
        return () if self.model is None else self.model.blocks

    def shown(self) -> Iterator[Table | str]:
        """The head, the model's layers, its weights by part, its cache, and what was assumed."""
        if self.draft_head is not None:
            yield _head_words(self.draft_head)
        if self.model is not None:
            yield from _shown_model(self.model)


def inspected(
    name: str, family: str | None = None
) -> tuple[ModelDescription | None, DraftHead | None]:
    """Everything that is known of a model by name, id or config.

    Args:
        name: shipped name, Hugging Face id, or path of a config.json, its folder or a model file.
        family: read a config as of this family.

    Returns:
        The model, None where the file describes nothing but a draft head; and that head.

    Raises:
        InputError: an unknown name, or a file that cannot be read; of a file's mistakes all are
            named.
    """
    head = _head(name)
    try:
        reading = load_reading(f"{name} as {family}" if family else name)
    except InputError:
        if head is None or not head.certain:
            raise
        return None, head
    return _described(reading), head


def _head(name: str) -> DraftHead | None:
    try:
        return head_of(name)
    except (InputError, OSError, ValueError):
        return None  # reading it as a model says what is wrong


def _described(reading: Reading) -> ModelDescription:
    a = reading.architecture
    as_family = (
        f"its config is read as one of the family {reading.read_as}" if reading.read_as else ""
    )
    form = precision(a.dtype, model=a)
    single_token: dict[str, Any] = {"batch": 1, "context": 1, "page_tokens": 1, "states": 0}
    return ModelDescription(
        name=a.name,
        source=a.source,
        read_as=a.read_as or as_family,
        model_type=a.model_type,
        layers=a.layers,
        hidden=a.hidden,
        vocab=a.vocab,
        max_context=a.max_context,
        tied=a.tied,
        parameters=a.parameters,
        active_parameters=a.active_parameters,
        parameters_by_part=parameters_by_part(a),
        dtype=a.dtype,
        quantiser=reading.quantiser.removesuffix("?"),
        quantiser_known=not reading.quantiser.endswith("?"),
        weight_bytes=weight_bytes(a, form),
        kv_bytes_per_token={
            kv: float(kv_bytes(a, Precision(kv=kv), **single_token)) for kv in ("bf16", "fp8")
        },
        state_bytes_per_request=state_bytes(a, form),
        mtp_layers=a.mtp_layers,
        blocks=[_layer_row(block, count) for block, count in a.blocks],
        assumed={key: value for key, value in reading.filled_in.items() if value is not None},
        card=_card(a.name) if a.source == "shipped" else None,
    )


def _card(name: str) -> ModelCardRow:
    card = model_card(name)
    return ModelCardRow(**{key: getattr(card, key) for key in ModelCardRow.__dataclass_fields__})


def parameters_by_part(a: Architecture) -> ParametersByPart:
    """Parameters of a model by part."""
    attention = recurrent = experts = feed_forward = 0
    for block, count in a.blocks:
        f = block.feed_forward
        routed = f.experts * f.expert_parameters(a.hidden)
        cross = block.cross.parameters(a.hidden) if block.cross else 0
        attention += count * (block.attention.parameters(a.hidden) + cross)
        recurrent += count * (block.state.parameters(a.hidden) if block.state else 0)
        experts += count * routed
        feed_forward += count * (f.parameters(a.hidden) - routed)
    head = 0 if a.tied else a.head_parameters
    encoder = 0 if a.encoder is None else a.encoder.parameters
    named = a.embedding_parameters + attention + recurrent + experts + feed_forward + head + encoder
    return ParametersByPart(
        embedding=a.embedding_parameters,
        attention=attention,
        recurrent=recurrent,
        feed_forward=feed_forward,
        experts=experts,
        other=a.parameters + a.repeated_parameters - named,
        head=head,
        encoder=None if a.encoder is None else encoder,
        used_again=-a.repeated_parameters or None,
    )


def _layer_row(block: Block, count: int) -> LayerRow:
    attention, f = block.attention, block.feed_forward
    return LayerRow(
        layers=count,
        heads=attention.heads,
        kv_heads=attention.kv_heads if attention.heads else 0,
        head_dim=attention.head_dim,
        window=attention.window,
        latent=attention.kv_lora_rank,
        attends_to=attention.index_tokens,
        state=block.state.kind if block.state else "",
        feed_forward=f.width,
        experts=f.experts,
        experts_per_token=f.experts_per_token,
        shared_width=f.shared_width,
    )


def _shown_model(model: ModelDescription) -> Iterator[Table | str]:
    if model.read_as:
        yield model.read_as
    yield (
        f"{model.name} ({model.model_type}, {model.source}): {model.layers} layers of"
        f" width {model.hidden:,}, vocabulary {model.vocab:,}{', tied' if model.tied else ''},"
        f" context up to {model.max_context:,} tokens"
    )
    yield (
        f"{model.parameters / GIGA:.3f} billion parameters, {model.active_parameters / GIGA:.3f}"
        f" billion for a token; weights in {model.dtype}: {format_bytes(model.weight_bytes)}"
    )
    cached, states = model.kv_bytes_per_token, model.state_bytes_per_request
    yield (
        f"cache: {cached['bf16'] / KILO:.1f} kB a token in 16 bits, {cached['fp8'] / KILO:.1f} kB"
        " in 8" + (f"; recurrent states: {states / MEGA:.1f} MB a request" if states else "")
    )
    if model.quantiser:
        unknown = f"; its number format is not known, {model.dtype} is taken"
        yield f"quantised by {model.quantiser}{'' if model.quantiser_known else unknown}"
    if model.mtp_layers:
        yield (
            f"multi-token prediction: {model.mtp_layers} layer(s) beside the model, not counted"
            " (--method mtp)"
        )
    yield Table(
        title="Layers", rows=model.blocks, columns=["layers", "attention", "state", "width"]
    )
    yield Table(
        title="Parameters by part",
        rows=list(_part_rows(model)),
        columns=["part", "billions", "percent"],
    )
    if model.assumed:
        listed = ", ".join(f"{key} = {value}" for key, value in sorted(model.assumed.items()))
        yield f"assumed, since the config does not say (defaults of its model class): {listed}"
    if model.card is not None:
        yield f"shapes read in: {model.card.config_source or 'not recorded'}"
        if model.card.official_parameters is not None:
            yield f"parameters as stated: {model.card.official_source}"
        if model.card.note:
            yield model.card.note


def _part_rows(model: ModelDescription) -> Iterator[ParameterPart]:
    """The parts that the model has."""
    for name, column in columns_of(ParametersByPart).items():
        if parameters := getattr(model.parameters_by_part, name):
            yield ParameterPart(
                part=column.head or name,
                billions=parameters / GIGA,
                percent=100 * parameters / model.parameters,
            )


def _head_words(head: DraftHead) -> str:
    words = [f"{head.kind} head" if head.certain else f"may be a head of {head.kind} (one layer)"]
    words += [f"{head.layers} layer(s)"] if head.layers else []
    words += [f"drafts among {head.draft_vocab:,} tokens"] if head.draft_vocab else []
    words += [f"for a target of width {head.target_hidden:,}"] if head.target_hidden else []
    return (
        f"draft head: {', '.join(words)} (from {head.reason}); its price follows from the target"
        " (--method)"
    )
