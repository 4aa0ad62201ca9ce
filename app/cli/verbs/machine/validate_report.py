"""What `validate` leaves: the report as JSON and as a page, and its tables on the screen."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def leave_report(
    report: Mapping[str, Any], out: Path, *, json: bool, quiet: bool, inputs: Mapping[str, Any]
) -> None:
    """Page, tables and JSON of a report."""
    from app.questions.places import plots_available
    from app.render.html.validation_page import sentence, write_validation_page
    from app.render.json import print_json, write_json
    from app.render.text import say
    from hardware_profiles.whole_file import whole_folder

    page = out / "validation.html"
    with whole_folder(out) as stage:
        write_json({"inputs": dict(inputs), **report}, stage / "validation.json")
        if plots_available():
            write_validation_page(report, stage / page.name)
    if json:
        print_json({"inputs": dict(inputs), **report, "out": str(out)})
    elif not quiet:
        say(sentence(report))
        _print(report)
        say(f"report in {page if page.exists() else out / 'validation.json'}")


def _print(report: Mapping[str, Any]) -> None:
    from app.render.html.validation_page import SUMMARY_COLUMNS, summary_rows
    from app.render.text import print_table

    for title, groups in report["by"].items():
        print_table(f"by {title}", [title, *SUMMARY_COLUMNS], summary_rows(groups))
    lost = [
        [
            f"{r['kind']}, {r['context'] or 'as they are'}, batch {r['batch']}",
            r["chosen"],
            r["best"],
            f"{r['chosen_tokens_per_s']:.1f}",
            f"{r['best_tokens_per_s']:.1f}",
            f"{r['regret_ratio']:.1%}",
        ]
        for r in report["regrets"]
    ]
    if lost:
        print_table(
            "what the choice cost", ["cell", "chosen", "best", "tokens/s", "best", "regret"], lost
        )
    skipped = [
        *report.get("left_out", ()),
        *([f"{report['missing_runs']} runs"] if report.get("missing_runs") else []),
    ]
    if skipped:
        print_table("left out", ["what"], [[each] for each in skipped[:20]])
