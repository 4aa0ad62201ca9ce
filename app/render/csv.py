"""How do the rows of an answer become comma-separated values?

The same rows as in JSON, numbers as they are: a record in a row gives a column for each of its keys
(`breakdown_s.draft`), an interval two (`speedup_low`, `speedup_high`), any other list its JSON
text. Leaves out the rest of an answer (its inputs, its notes), which `--json` and `--out` have.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardware_profiles.whole_file import make_folder, whole_file


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows to a file whole, with a line of names; what a row does not have is empty.

    Args:
        rows: as they stand in JSON.
        path: file to write.

    Raises:
        InputError: the place cannot be written.
    """
    make_folder(path.parent)
    with whole_file(path) as part:
        part.write_text(csv_text(rows), encoding="utf-8", newline="")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as lines of values, the first line their names in order of appearance.

    Example:
        >>> print(csv_text([{"batch": 1, "speedup": 1.5, "speedup_interval": [1.25, 2.0], "tree": None}]).strip())
        batch,speedup,speedup_low,speedup_high,tree
        1,1.5,1.25,2.0,
    """
    flat = [flat_row(row) for row in rows]
    text = io.StringIO()
    names = dict.fromkeys(name for row in flat for name in row)
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    for row in flat:
        writer.writerow(
            {
                name: json.dumps(value) if isinstance(value, list) else value
                for name, value in row.items()
            }
        )
    return text.getvalue()


def flat_row(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A row without records in it: their keys joined by dots, intervals as two numbers; other lists
    stay.

    Args:
        row: as it stands in JSON.
        before: what every name begins with.
    """
    flat: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            flat |= flat_row(value, f"{name}.")
        elif key.endswith("interval") and isinstance(value, list) and len(value) == 2:
            at = name.removesuffix("_interval")
            flat |= {f"{at}_low": value[0], f"{at}_high": value[1]}
        else:
            flat[name] = value
    return flat
