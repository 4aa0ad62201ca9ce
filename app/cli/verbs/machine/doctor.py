"""`doctor`: what this machine has, and what would run on it."""

from typing import Annotated

from app.questions.field import Field, Group
from app.questions.fields import Json, Quiet


def doctor(
    gpu: Annotated[
        bool,
        Field("Try the GPU: would measurements on it be true? About a minute.", Group.HARDWARE),
    ] = False,
    device: Annotated[str, Field("With --gpu: torch device.", Group.HARDWARE)] = "cuda",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look for devices, libraries, back ends and weights, and say which verbs would run."""
    from app.render.json import print_json
    from app.render.text import print_table
    from real_runs.doctor import diagnose

    if gpu:
        _examine(device, json=json, quiet=quiet)
        return
    found = diagnose()
    if json:
        topics = ("machine", "libraries", "back_ends", "weights")
        print_json(
            {
                "inputs": {},
                **{topic: list(getattr(found, topic)) for topic in topics},
                "verbs": found.verbs,
            }
        )
    elif not quiet:
        every = [*found.machine, *found.libraries, *found.back_ends, *found.weights]
        print_table(
            "this machine",
            ["what", "state", "detail", "for"],
            [[each.what, each.state, each.detail[:70], each.serves] for each in every],
        )
        print_table(
            "what would run",
            ["verb", "missing"],
            [[verb, why or "nothing"] for verb, why in found.verbs.items()],
        )


def _examine(device: str, *, json: bool, quiet: bool) -> None:
    """Run the probes of a GPU and say what each found."""
    from dataclasses import asdict

    from app.cli.progress import progress_lines
    from app.render.json import print_json
    from app.render.text import print_table
    from hardware_profiles.errors import InputError
    from real_runs.gpu_doctor import examine
    from real_runs.models.device import checked_device

    checked_device(device)
    tell = progress_lines(quiet)
    findings = examine(
        device, progress=lambda each: tell(f"{each.probe}: {each.state}, {each.seconds:.1f} s")
    )
    if json:
        print_json({"inputs": {"device": device}, "findings": [asdict(each) for each in findings]})
    elif not quiet:
        print_table(
            device,
            ["probe", "state", "detail", "what to do"],
            [[each.probe, each.state, each.detail, each.advice] for each in findings],
        )
    wrong = [each.probe for each in findings if each.state == "wrong"]
    if wrong:
        raise InputError(f"gives no true numbers: {', '.join(wrong)}", key="--device", value=device)
