"""`validate --from-bench`: an engine's own benchmark beside predictions; runs nothing."""

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from real_runs.validation.engines.bench_results import BenchComparison

_MOST_BYTES = 64 << 20


def compare_bench(files: Sequence[Path], predicted: str | None, *, json: bool, quiet: bool) -> None:
    """Read benchmark files and a prediction, and print them side by side.

    Args:
        files: benchmark JSON.
        predicted: file with the JSON answer of `predict`.
        json: print JSON.
        quiet: print nothing.

    Raises:
        InputError: files that cannot be read, or no prediction.
    """
    from app.render.json import print_json
    from app.render.text import print_table
    from hardware_profiles.errors import InputError
    from real_runs.validation.engines.bench_results import compare, read_bench

    if predicted is None:
        raise InputError(
            "--from-bench needs a prediction: `rooftree predict ... --json > FILE`", key="--predict"
        )
    runs = [run for file in files for run in read_bench(file)]
    found = compare(runs, _answer(Path(predicted)), file=predicted)
    errors = sorted(
        abs(each.tpot_error_ratio) for each in found if each.tpot_error_ratio is not None
    )
    if json:
        print_json(
            {
                "inputs": {"from_bench": [str(file) for file in files], "predict": predicted},
                "runs": found,
                "median_tpot_error_ratio": errors[len(errors) // 2] if errors else None,
            }
        )
    elif not quiet:
        columns = [
            "run",
            "batch",
            "context",
            "ms/token",
            "predicted",
            "error",
            "tokens/step",
            "predicted",
            "covered",
        ]
        print_table("benchmark beside predictions", columns, [_line(each) for each in found])


def _line(comparison: "BenchComparison") -> list[str]:
    from hardware_profiles.units import MILLI

    run = comparison.run
    assert run.tpot_s is not None
    error = comparison.tpot_error_ratio
    return [
        f"{run.file} ({run.source})",
        f"{run.batch or comparison.batch:g}",
        f"{run.context or comparison.context:.0f}",
        f"{run.tpot_s / MILLI:.2f}",
        f"{comparison.predicted_tpot_s / MILLI:.2f}",
        "" if error is None else f"{error:+.1%}",
        "" if run.tokens_per_step is None else f"{run.tokens_per_step:.2f}",
        f"{comparison.predicted_tokens_per_step:.2f}",
        {None: "", True: "yes", False: "no"}[comparison.covered],
    ]


def _answer(path: Path) -> dict[str, Any]:
    from hardware_profiles.errors import InputError

    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"must not exceed {_MOST_BYTES} bytes", file=path)
        value = json_module.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"must be a JSON answer of predict ({error})", file=path) from None
    if not isinstance(value, dict):
        raise InputError("must be a JSON answer of predict", file=path)
    return value
