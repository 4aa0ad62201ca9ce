"""`models`: architectures, dollars of their tokens, and draft models that are cut out of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from app.answers.models.inspection import InspectedModel, inspected
from app.answers.models.rows import DraftModel, ModelRow, Models, TokenPriceRow
from app.questions.field import LIST, inputs_of
from app.questions.models import ModelsQuestion
from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model, model_names
from costmodel.parallel.token_price import cheapest_mix, token_price, token_work
from costmodel.passes.precision import precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import MEGA
from real_runs.models.loading.weights import find_model
from real_runs.servers.llama_cpp.cut_draft import cut_draft, read_layers
from real_runs.servers.llama_cpp.fitted_head import fitted_head


def answer(question: ModelsQuestion) -> Models | InspectedModel | DraftModel:
    """Models that are shipped or one of them, what a config holds, or a draft model.

    Raises:
        InputError: an unknown name, a file that cannot be read, or an option of another mode.
    """
    if question.name == LIST:
        question = replace(question, name=None)
    if question.name == "inspect":
        return _inspected(question)
    if question.name == "cut":
        return _draft_model(question)
    _refuse_options_of_modes(question)
    names = model_names() if question.name is None else [question.name]
    architectures = [load_model(name) for name in names]
    return Models(
        inputs=inputs_of(question),
        models=[
            ModelRow(**{key: getattr(a, key) for key in ModelRow.__dataclass_fields__})
            for a in architectures
        ],
        prices=list(_prices(architectures, question)) if question.price else None,
    )


def _refuse_options_of_modes(question: ModelsQuestion) -> None:
    """Refuse what belongs to `models inspect` or `models cut`."""
    if question.subject is not None:
        rule = "a second word follows `inspect` or `cut` alone; `rooftree models NAME` shows one"
        raise InputError(rule, key="models", value=question.subject)
    words = (
        (question.as_family, f"--as {question.as_family}"),
        (question.layers, f"--layers {question.layers}"),
        (question.fit_head, "--fit-head"),
    )
    stated = [word for value, word in words if value]
    if stated:
        raise InputError(
            "belongs to `rooftree models inspect` or `cut`", key="models", value=stated[0]
        )


def _inspected(question: ModelsQuestion) -> InspectedModel:
    if question.subject is None:
        raise InputError("what is to be inspected? rooftree models inspect config.json")
    model, head = inspected(question.subject, question.as_family)
    return InspectedModel(inputs=inputs_of(question), model=model, draft_head=head)


def _draft_model(question: ModelsQuestion) -> DraftModel:
    """A draft model for llama.cpp: the .gguf file that is left of a model, in a folder."""
    layers = question.layers
    if not layers:
        raise InputError(
            "which layers are to be kept? e.g. --layers 10, or --layers 0-9,28,29", key="--layers"
        )
    source, layers_kept = find_model(question.subject).path, read_layers(layers)
    if question.fit_head and layers_kept != tuple(range(len(layers_kept))):
        raise InputError(
            "a head is fitted to a model's first layers alone", key="--layers", value=layers
        )
    fitted = "--fitted" if question.fit_head else ""
    name = f"{source.stem}--layers-{layers.replace(',', '+')}{fitted}.gguf"
    head = fitted_head(source, len(layers_kept)) if question.fit_head else None
    draft = cut_draft(source, (question.out or Path("rooftree-out")) / name, layers_kept, head=head)
    return DraftModel(
        inputs=inputs_of(question, model=str(source)),
        file=draft.path,
        layers=draft.layers,
        whole_layers=draft.whole_layers,
        tensor_bytes=draft.tensor_bytes,
        whole_tensor_bytes=draft.whole_tensor_bytes,
    )


def _prices(
    architectures: Sequence[Architecture], question: ModelsQuestion
) -> Iterator[TokenPriceRow]:
    """Dollars of a million tokens by model and device, then with every part on its cheapest
    device.
    """
    dtype = question.dtype
    devices = [load_device(name.strip()) for name in question.price.split(",") if name.strip()]
    for architecture in architectures:
        work = token_work(architecture, precision(dtype, dtype), question.context)
        prices = [
            tuple(MEGA * float(part) for part in token_price(work, device, dtype))
            for device in devices
        ]
        for device, (attention, feed_forward) in zip(devices, prices, strict=True):
            yield TokenPriceRow(
                model=architecture.name,
                device=device.name,
                attention_usd_per_million=attention,
                feed_forward_usd_per_million=feed_forward,
                usd_per_million=attention + feed_forward,
            )
        if len(devices) > 1:
            together = cheapest_mix(work, [(device, dtype) for device in devices])
            yield TokenPriceRow(
                model=architecture.name,
                device="each part on its cheapest",
                attention_usd_per_million=min(attention for attention, _ in prices),
                feed_forward_usd_per_million=min(feed_forward for _, feed_forward in prices),
                usd_per_million=MEGA * float(together),
            )
