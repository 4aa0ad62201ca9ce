"""`devices`, `models` and `methods`: what is shipped, with where the numbers come from."""

from typing import Annotated

import typer

from app.cli.options import Json, Out, Overrides, Quiet, Seed
from app.cli.output import deliver, print_table, say

_DEVICE_KEYS = ("name", "title", "kind", "memory_bytes", "bandwidth_bytes_per_s", "peak_flops_per_s", "calibrated",
                "constants_from")  # fmt: skip
_MODEL_KEYS = ("name", "model_type", "layers", "hidden", "vocab", "parameters", "active_parameters",
               "kv_values_per_token", "max_context", "dtype", "source")  # fmt: skip
Name = Annotated[str | None, typer.Argument(help="Show one in full.")]


def devices(
    name: Name = None,
    overrides: Overrides = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List device profiles, or show one with the source of every number."""
    from hardware_profiles.errors import InputError
    from hardware_profiles.loader import device_names, load_device
    from hardware_profiles.units import GIB, GIGA, TERA

    if overrides and name is None:
        raise InputError("--set needs the name of one device")
    names = [name] if name is not None else device_names()
    loaded = [load_device(each, overrides or ()) for each in names]
    answer = {
        "inputs": {"name": name, "set": overrides or [], "seed": seed},
        "devices": loaded if name is not None else [_brief(each, _DEVICE_KEYS) for each in loaded],
    }
    deliver(answer, name="devices", json=json, out=out)
    if json or quiet:
        return
    rows = [
        [
            d.name, d.title, f"{d.memory_bytes / GIB:.0f}", f"{d.bandwidth_bytes_per_s / GIGA:.0f}",
            f"{max(d.peak_flops_per_s.get(k, 0.0) for k in ('bf16', 'fp16', 'fp32')) / TERA:.4g}",
            "itself" if d.calibrated else d.constants_from or "assumed",
        ]
        for d in loaded
    ]  # fmt: skip
    print_table("Devices", ["name", "title", "GiB", "GB/s", "16-bit TFLOP/s", "constants from"], rows)
    if name:
        for key, value in sorted(loaded[0].provenance.items()):
            say(f"  {key}: {value.kind}, {value.source}")


def models(name: Name = None, out: Out = None, seed: Seed = 0, json: Json = False, quiet: Quiet = False) -> None:
    """List model architectures, or show one."""
    from costmodel.model_library import load_model, model_names
    from hardware_profiles.units import GIGA, KILO

    loaded = [load_model(each) for each in ([name] if name is not None else model_names())]
    answer = {"inputs": {"name": name, "seed": seed}, "models": [_brief(each, _MODEL_KEYS) for each in loaded]}
    deliver(answer, name="models", json=json, out=out)
    if json or quiet:
        return
    rows = [
        [
            m.name, m.model_type, str(m.layers), str(m.hidden), f"{m.parameters / GIGA:.3f}",
            f"{m.active_parameters / GIGA:.3f}", f"{m.kv_values_per_token * 2 / KILO:.1f}",
        ]
        for m in loaded
    ]  # fmt: skip
    columns = ["name", "type", "layers", "width", "parameters (10⁹)", "active (10⁹)", "KV kB/token (16-bit)"]
    print_table("Models", columns, rows)


def methods(name: Name = None, out: Out = None, seed: Seed = 0, json: Json = False, quiet: Quiet = False) -> None:
    """List published methods, or show one with its citation and reported numbers."""
    from costmodel.method_library import load_method, method_names

    loaded = [load_method(each) for each in ([name] if name is not None else method_names())]
    deliver({"inputs": {"name": name, "seed": seed}, "methods": loaded}, name="methods", json=json, out=out)
    if json or quiet:
        return
    rows = [
        [
            m.slug,
            m.title,
            str(m.citation.year),
            m.drafter,
            ", ".join(m.topologies) or "off",
            m.verifier,
            m.exactness,
        ]
        for m in loaded
    ]
    print_table("Methods", ["slug", "title", "year", "drafter", "topologies", "verifier", "exactness"], rows)
    if name:
        c = loaded[0].citation
        say(f"{c.authors}. {c.title}. {c.year}. {'arXiv:' + c.arxiv if c.arxiv else c.url}")
        for r in loaded[0].reported:
            say(f"  reported {r.quantity} {r.value:g}: {r.conditions} ({r.source})")


def _brief(record: object, keys: tuple[str, ...]) -> dict[str, object]:
    return {key: getattr(record, key) for key in keys}
