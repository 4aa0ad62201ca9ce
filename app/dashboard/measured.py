"""Which measured results can the validation page show? Leaves out reading them
(`answers.validation`).
"""

from pathlib import Path

from app.answers.scoring.published import FILE
from real_runs.campaigns.results import SHIPPED, kernel_files, results_folders

REPORT = Path("validation") / "validation.json"
ENGINE_REPORT = Path("validation.json")
LOADS = Path("loads")
PUBLISHED = "published"  # runs of others on GPUs, which come first


def measured_results(root: Path | None = None) -> dict[str, Path]:
    """Where results lie, by name: published runs on GPUs first, then ours by device and date.

    Of ours those of GPUs and of real decoding come first, those of live engines and masked models
    last.

    Args:
        root: of all results of ours; None: those that ship.
    """
    folders = [folder for folder in results_folders(root) if kernel_files(folder)]
    folders.sort(
        key=lambda folder: (folder.parent.name.startswith("cpu-"), not (folder / REPORT).exists())
    )
    results = {PUBLISHED: FILE} if root is None else {}
    results |= {f"{folder.parent.name}.{folder.name}": folder for folder in folders}
    for folder in sorted((root or SHIPPED).glob("*/*/*/")):
        own = folder.name != REPORT.parent.name  # REPORT belongs to the results around it
        if own and any((folder / part).exists() for part in (ENGINE_REPORT, LOADS / "replay.json")):
            results[".".join(folder.parts[-3:])] = folder
    return results
