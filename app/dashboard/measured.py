"""Which measured results can the validation page show? Leaves out reading them (`answers.validation`)."""

from pathlib import Path

from real_runs.campaigns.results import SHIPPED, kernel_files, results_folders

REPORT = Path("validation") / "validation.json"
ENGINE_REPORT = Path("validation.json")
LOADS = Path("loads")


def measured_results(root: Path | None = None) -> dict[str, Path]:
    """Folders of results by device and date; those of real decoding first, those of live engines last.

    Args:
        root: of all results; None: those that ship.
    """
    folders = [folder for folder in results_folders(root) if kernel_files(folder)]
    folders.sort(key=lambda folder: not (folder / REPORT).exists())
    found = {f"{folder.parent.name}.{folder.name}": folder for folder in folders}
    for folder in sorted((root or SHIPPED).glob("*/*/*/")):
        if any((folder / part).exists() for part in (ENGINE_REPORT, LOADS / "replay.json")):
            found[".".join(folder.parts[-3:])] = folder
    return found
