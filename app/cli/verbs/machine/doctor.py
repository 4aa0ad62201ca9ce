"""`doctor`: what this machine has, and what would run on it."""

from app.cli.options import Json, Quiet


def doctor(json: Json = False, quiet: Quiet = False) -> None:
    """Look for devices, libraries, back ends and weights, and say which verbs would run."""
    from app.cli.output import emit_json, print_table
    from real_runs.doctor import diagnose

    found = diagnose()
    if json:
        topics = ("machine", "libraries", "back_ends", "weights")
        emit_json({"inputs": {}, **{topic: list(getattr(found, topic)) for topic in topics}, "verbs": found.verbs})
    elif not quiet:
        every = [*found.machine, *found.libraries, *found.back_ends, *found.weights]
        print_table("this machine", ["what", "state", "detail", "for"],
                    [[each.what, each.state, each.detail[:70], each.serves] for each in every])  # fmt: skip
        print_table(
            "what would run", ["verb", "missing"], [[verb, why or "nothing"] for verb, why in found.verbs.items()]
        )
