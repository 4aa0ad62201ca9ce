"""`devices` and `models`: what is shipped, with where the numbers come from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.answers.numbers import fixed, plain
from app.cli.output import Answered, deliver
from app.questions.field import Field, Group
from app.questions.fields import AsFamily, Csv, Json, Out, Overrides, Quiet, Seed
from app.questions.places import require_folder
from app.render.text import print_table, say

if TYPE_CHECKING:
    from costmodel.architectures.architecture import Architecture

_DEVICE_KEYS = (
    "name",
    "title",
    "kind",
    "memory_bytes",
    "bandwidth_bytes_per_s",
    "peak_flops_per_s",
    "processors",
    "power_w",
    "price_usd_per_hour",
    "driver_names",
    "calibrated",
    "constants_from",
)
_MODEL_KEYS = (
    "name",
    "model_type",
    "layers",
    "hidden",
    "vocab",
    "parameters",
    "active_parameters",
    "kv_values_per_token",
    "max_context",
    "dtype",
    "source",
)
Name = Annotated[str | None, Field("Show one in full.", Group.WORKLOAD, argument=True)]


def devices(
    name: Annotated[
        str | None,
        Field(
            "Show one in full, shipped or a TOML file; `new` writes a file to fill in.",
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None,
    new: Annotated[
        str | None,
        Field(
            "After `new`: name of the device.",
            Group.WORKLOAD,
            placeholder="[NEW NAME]",
            argument=True,
        ),
    ] = None,
    like: Annotated[
        str,
        Field(
            "With `new`: relative whose numbers stand in until they are replaced.", Group.HARDWARE
        ),
    ] = "h100-sxm",
    overrides: Overrides = None,
    out: Annotated[
        Path | None, Field("Folder for files; with `new` the file to write.", Group.OUTPUT)
    ] = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """List device profiles, show one with the source of every number, or write a file for a new
    one.
    """
    from hardware_profiles.errors import InputError
    from hardware_profiles.loader import device_names, load_device
    from hardware_profiles.units import GIB, GIGA, TERA

    if name == "new":
        if new is None:
            raise InputError("the new device needs a name: rooftree devices new NAME")
        return _new_device(new, like, out, json=json, quiet=quiet)
    if new is not None:
        raise InputError("one device at a time, or `new` and a name", key="devices", value=new)
    if out is not None:
        require_folder(out)
    if overrides and name is None:
        raise InputError("--set needs the name of one device")
    names = [name] if name is not None else device_names()
    loaded = [load_device(each, overrides or ()) for each in names]
    answer = {
        "inputs": {"name": name, "set": overrides or [], "seed": seed},
        "devices": loaded if name is not None else [brief(each, _DEVICE_KEYS) for each in loaded],
    }
    rows = [
        [
            d.name,
            d.title,
            plain(d.memory_bytes / GIB, 2),
            plain(d.bandwidth_bytes_per_s / GIGA, 2),
            plain(max(d.peak_flops_per_s.get(k, 0.0) for k in ("bf16", "fp16", "fp32")) / TERA),
            "itself" if d.calibrated else d.constants_from or "assumed",
        ]
        for d in loaded
    ]

    def show() -> None:
        print_table(
            "Devices", ["name", "title", "GiB", "GB/s", "16-bit TFLOP/s", "constants from"], rows
        )
        for key, value in sorted(loaded[0].provenance.items()) if name else ():
            say(f"  {key}: {value.kind}, {value.source}")

    return deliver(
        answer,
        name="devices",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        csv=csv,
        rows=["devices"],
    )


def _new_device(name: str, like: str, out: Path | None, *, json: bool, quiet: bool) -> Answered:
    """A device file to fill in, on the screen or where it is to stand; a file that is there is
    never replaced.
    """
    from hardware_profiles.errors import InputError
    from hardware_profiles.template import device_template
    from hardware_profiles.whole_file import whole_file

    text = device_template(name, like)
    if out is not None:
        if out.exists():
            raise InputError("exists already; name another file", file=out, key="--out")
        with whole_file(out) as part:
            part.write_text(text, encoding="utf-8")
    shown = text.rstrip() if out is None else f"wrote {out}; ask about it as --device {out}"
    body = {"inputs": {"name": name, "like": like}, "template": text, "file": out}
    return deliver(body, name="", json=json, out=None, quiet=quiet, show=lambda: say(shown))


def models(
    name: Annotated[
        str | None,
        Field(
            (
                "Show one; `inspect` tells what a config, an id or a shipped name holds; `cut`"
                " makes a draft model."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None,
    subject: Annotated[
        str | None,
        Field(
            "After `inspect`: a config.json, its folder, an id or a name; after `cut`: a .gguf.",
            Group.WORKLOAD,
            placeholder="[CONFIG]",
            argument=True,
        ),
    ] = None,
    as_family: AsFamily = None,
    layers: Annotated[
        str,
        Field("After `cut`: layers to keep: 10 (the first ones), or 0-9,28,29.", Group.RUN),
    ] = "",
    fit_head: Annotated[
        bool,
        Field(
            "After `cut` to the first layers: fit a head to them, on help topics.", Group.DRAFTING
        ),
    ] = False,
    price: Annotated[
        str,
        Field(
            "Devices, comma-separated: least dollars of a decoded token at their roofs.",
            Group.HARDWARE,
        ),
    ] = "",
    context: Annotated[
        int, Field("With --price: cached tokens that are read.", Group.WORKLOAD, least=0)
    ] = 8192,
    dtype: Annotated[
        str, Field("With --price: format of weights and cache.", Group.FORMATS)
    ] = "bf16",
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """List model architectures, show or inspect one, cut a draft model; with --price, least dollars
    of a token.
    """
    from costmodel.architectures.library import load_model, model_names
    from hardware_profiles.errors import InputError
    from hardware_profiles.units import GIGA, KILO

    if name == "inspect":
        return _inspect(subject, as_family, out=out, json=json, quiet=quiet)
    if name == "cut":
        return _cut(subject, layers, fit_head, out=out, json=json, quiet=quiet)
    if subject is not None or as_family is not None or layers or fit_head:
        given = subject or (
            f"--as {as_family}" if as_family else f"--layers {layers}" if layers else "--fit-head"
        )
        raise InputError("belongs to `rooftree models inspect` or `cut`", key="models", value=given)
    loaded = [load_model(each) for each in ([name] if name is not None else model_names())]
    answer = {
        "inputs": {"name": name, "seed": seed},
        "models": [brief(each, _MODEL_KEYS) for each in loaded],
    }
    priced = _prices(loaded, price, context, dtype) if price else []
    if price:
        answer |= {
            "inputs": {
                "name": name,
                "price": price,
                "context": context,
                "dtype": dtype,
                "seed": seed,
            },
            "prices": priced,
        }
    rows = [
        [
            m.name,
            m.model_type,
            plain(m.layers),
            plain(m.hidden),
            fixed(m.parameters / GIGA, 3),
            fixed(m.active_parameters / GIGA, 3),
            fixed(m.kv_values_per_token * 2 / KILO, 1),
        ]
        for m in loaded
    ]
    columns = [
        "name",
        "type",
        "layers",
        "width",
        "parameters (10⁹)",
        "active (10⁹)",
        "KV kB/token (16-bit)",
    ]
    quantities = ("attention", "feed_forward", "")
    cells = [
        [
            p["model"],
            p["device"],
            *(fixed(p[f"{q}_usd_per_million".lstrip("_")], 4) for q in quantities),
        ]
        for p in priced
    ]

    def show() -> None:
        if not price:
            print_table("Models", columns, rows)
            return
        print_table(
            f"Least dollars per million tokens, context {context:,}, {dtype}",
            ["model", "device", "attention", "feed-forward", "together"],
            cells,
            caption="lower bounds: every device at its roofs, weights read for nothing",
        )

    return deliver(
        answer,
        name="models",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        csv=csv,
        rows=["prices" if price else "models"],
    )


def _inspect(
    subject: str | None, family: str | None, *, out: Path | None, json: bool, quiet: bool
) -> Answered:
    from app.answers.models import inspected
    from app.cli.shown.inspect import print_model
    from hardware_profiles.errors import InputError

    if subject is None:
        raise InputError("what is to be inspected? rooftree models inspect config.json")
    body = {"inputs": {"model": subject, "as": family}, **inspected(subject, family)}
    return deliver(
        body, name="model", json=json, out=out, quiet=quiet, show=lambda: print_model(body)
    )


def _cut(
    model: str | None, layers: str, fit_head: bool, *, out: Path | None, json: bool, quiet: bool
) -> Answered:
    """A draft model for llama.cpp: the .gguf file that is left of a model, in a folder."""
    from hardware_profiles.errors import InputError
    from real_runs.models.loading.weights import find_model
    from real_runs.servers.llama_cpp.cut_draft import cut_draft, read_layers
    from real_runs.servers.llama_cpp.fitted_head import fitted_head

    if not layers:
        raise InputError(
            "which layers are to be kept? e.g. --layers 10, or --layers 0-9,28,29", key="--layers"
        )
    source, chosen = find_model(model).path, read_layers(layers)
    if fit_head and chosen != tuple(range(len(chosen))):
        raise InputError(
            "a head is fitted to a model's first layers alone", key="--layers", value=layers
        )
    name = f"{source.stem}--layers-{layers.replace(',', '+')}{'--fitted' if fit_head else ''}.gguf"
    head = fitted_head(source, len(chosen)) if fit_head else None
    made = cut_draft(
        source, (Path("rooftree-out") if out is None else out) / name, chosen, head=head
    )
    body = {
        "inputs": {"model": str(source), "layers": layers, "fit_head": fit_head},
        "file": str(made.path),
        "layers": list(made.layers),
        "whole_layers": made.whole_layers,
        "tensor_bytes": made.tensor_bytes,
        "whole_tensor_bytes": made.whole_tensor_bytes,
    }

    def show() -> None:
        share = made.tensor_bytes / made.whole_tensor_bytes
        say(
            f"wrote {made.path}: {len(made.layers)} of {made.whole_layers} layers, {share:.0%} of"
            " the bytes"
        )
        say(
            f"draft with it: rooftree predict --model {source} --draft {made.path} --method"
            " speculative-decoding"
        )

    return deliver(body, name="", json=json, out=None, quiet=quiet, show=show)


def _prices(
    loaded: "list[Architecture]", devices: str, context: int, dtype: str
) -> list[dict[str, Any]]:
    """Dollars of a million tokens by model and device, then with every part on its cheapest
    device.
    """
    from costmodel.parallel.token_price import cheapest_mix, token_price, token_work
    from costmodel.passes.precision import precision
    from hardware_profiles.loader import load_device
    from hardware_profiles.units import MEGA

    chosen = [load_device(each.strip()) for each in devices.split(",") if each.strip()]
    found = []
    for model in loaded:
        work = token_work(model, precision(dtype, dtype), context)
        for device in chosen:
            attention, feed_forward = (
                MEGA * float(part) for part in token_price(work, device, dtype)
            )
            found.append(
                {
                    "model": model.name,
                    "device": device.name,
                    "attention_usd_per_million": attention,
                    "feed_forward_usd_per_million": feed_forward,
                    "usd_per_million": attention + feed_forward,
                }
            )
        if len(chosen) > 1:
            prices = [token_price(work, device, dtype) for device in chosen]
            attention, feed_forward = (
                MEGA * min(float(part) for part in parts) for parts in zip(*prices, strict=True)
            )
            found.append(
                {
                    "model": model.name,
                    "device": "each part on its cheapest",
                    "attention_usd_per_million": attention,
                    "feed_forward_usd_per_million": feed_forward,
                    "usd_per_million": (
                        MEGA * float(cheapest_mix(work, [(device, dtype) for device in chosen]))
                    ),
                }
            )
    return found


def brief(record: object, keys: tuple[str, ...]) -> dict[str, object]:
    """The named fields of a record."""
    return {key: getattr(record, key) for key in keys}
