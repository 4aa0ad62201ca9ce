"""How well does the present cost model time the measurements that are committed? `--write` makes it
the bound.

Run by `make golden` beside the predictions. Bounds are written anew only where results were added,
or where a change that makes them worse is explained under "Predictions changed" in CHANGELOG.md.
"""

import json
import sys
from pathlib import Path

from real_runs.campaigns.results import SHIPPED, results_folders
from real_runs.validation.servers.steps_file import STEPS
from tests.golden.rescore import as_json, rescore

FILE = Path(__file__).parent / "validation_errors.json"
SLACK_RATIO, SLACK = 0.02, 0.001  # of the bound, and absolute: rounding of profiles, not of models


def errors() -> dict[str, dict[str, dict[str, float]]]:
    """By results folder and what was scored: rows, median and p90."""
    found = {}
    places = {path.parent for path in SHIPPED.glob(f"*/*/*/{STEPS}")}
    for folder in results_folders():
        places |= {folder, *(path for path in folder.iterdir() if path.is_dir())}
    for place in sorted(places):
        scores = as_json(rescore(place))
        if scores:
            found["/".join(place.parts[place.parts.index("results") + 1 :])] = scores
    return found


def worse(
    before: dict[str, dict[str, dict[str, float]]], after: dict[str, dict[str, dict[str, float]]]
) -> list[str]:
    """One line per error beyond its bound, and per bound whose results are gone."""
    lines = []
    for folder, scores in before.items():
        for what, bound in scores.items():
            now = after.get(folder, {}).get(what)
            if now is None or now["rows"] != bound["rows"]:
                lines.append(f"{folder}: {what}: the results behind the bound are gone or others")
                continue
            lines += [
                f"{folder}: {what}: {key} {now[key]:.4f} exceeds {bound[key]:.4f}"
                for key in ("median", "p90")
                if now[key] > bound[key] * (1 + SLACK_RATIO) + SLACK
            ]
    return lines


def main() -> int:
    """Print errors beyond their bounds; with `--write`, make the present errors the bounds."""
    present = errors()
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(present, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    lines = worse(json.loads(FILE.read_text(encoding="utf-8")), present)
    sys.stdout.write("\n".join(lines) + "\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    raise SystemExit(main())
