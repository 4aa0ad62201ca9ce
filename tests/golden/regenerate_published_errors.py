"""Make anew what is committed of errors on published serving runs.

rooftree score TABLE.parquet... --out SCORE
python -m tests.golden.regenerate_published_errors SCORE/score.json            # prints it
python -m tests.golden.regenerate_published_errors SCORE/score.json --write
"""

import json
import sys
from pathlib import Path

from app.answers.scoring.published import FILE, summarised


def main(words: list[str]) -> int:
    """Print what is committed, and what the score says; with `--write`, commit that."""
    found = summarised(json.loads(Path(words[0]).read_text()))
    for group in found["groups"]:
        errors = group["tpot"] or {"runs": 0, "median": float("nan"), "p90": float("nan")}
        print(
            f"{group['engine'] or 'all':14} {group['device'] or 'all':20} {errors['runs']:5} runs,"
            f" TPOT {errors['median']:.1%} in the median, {errors['p90']:.1%} at p90"
        )
    if "--write" in words:
        FILE.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
