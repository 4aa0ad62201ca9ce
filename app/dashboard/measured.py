"""Which measured results can the validation page show? Leaves out reading them (`answers.validation`)."""

from pathlib import Path

from real_runs.campaigns.results import kernel_files, results_folders

REPORT = Path("validation") / "validation.json"


def measured_results() -> dict[str, Path]:
    """Folders of results with timed kernels, by device and date; those of real decoding first."""
    folders = [folder for folder in results_folders() if kernel_files(folder)]
    folders.sort(key=lambda folder: not (folder / REPORT).exists())
    return {f"{folder.parent.name}.{folder.name}": folder for folder in folders}
