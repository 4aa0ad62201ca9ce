"""Which traces are shipped, and how is any trace opened by its path?"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hardware_profiles.errors import InputError
from traces.importers.formats import read_trace_any
from traces.kinds.acceptance import AcceptanceTrace

__all__ = [
    "GpuRecording",
    "default_traces",
    "gpu_recordings",
    "is_confidence",
    "read_trace",
    "recordings",
    "shipped",
    "shipped_confidence",
    "shipped_traces",
    "trace_file",
    "trace_name",
]

_FOLDER = Path(__file__).parent / "recorded"
_GPU = "gpu"


def read_trace(path: str | Path) -> AcceptanceTrace:
    """An acceptance trace of any known form; one that comes with rooftree is read once.

    Args:
        path: a trace file (.parquet), or a foreign file.

    Raises:
        InputError: no format claims the file, several do, or it is not as described.
    """
    file = Path(path)
    return _recorded(file) if _FOLDER in file.parents else read_trace_any(file)


@lru_cache(maxsize=16)
def _recorded(path: Path) -> AcceptanceTrace:
    return read_trace_any(path)


def shipped_traces() -> list[Path]:
    """Recordings that come with rooftree, by name."""
    return sorted(_FOLDER.glob("*.parquet"))


def shipped_confidence() -> list[Path]:
    """Confidence traces that come with rooftree, by name."""
    return sorted((_FOLDER / "confidence").glob("*.parquet"))


def shipped() -> dict[str, Path]:
    """Every trace that comes with rooftree by name: recordings of acceptance, then confidence."""
    confidence = {name: path for name, path in _by_name().items() if _is_of_confidence(name)}
    return {**recordings(), **confidence}


def recordings() -> dict[str, Path]:
    """All recordings of acceptance that come with rooftree, by name: the usual ones, then those of
    folders.

    Example:
        >>> [name for name in recordings() if name.endswith("--medusa-heads--t1")]
        ['level-3/smollm2-135m--medusa-heads--t1', 'level-3-trees/smollm2-135m--medusa-heads--t1']
    """
    by_name = {name: path for name, path in _by_name().items() if not _is_of_confidence(name)}
    return dict(sorted(by_name.items(), key=lambda item: ("/" in item[0], item[0].split("/"))))


def default_traces() -> list[Path]:
    """The recordings that `optimize` answers from when none is named: every drafter, greedy.

    Raises:
        InputError: the installation has lost them.
    """
    greedy = [path for path in shipped_traces() if path.stem.endswith("--greedy")]
    if not greedy:
        raise InputError(
            "the shipped recordings are missing; reinstall, or pass --trace", file=_FOLDER
        )
    return greedy


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRecording:
    """A shipped recording of a run on a GPU, as its name tells it.

    Args:
        path: file.
        target: name of a shipped model.
        method: slug; `plain`: nothing drafted.
    """

    path: Path
    target: str
    method: str

    @property
    def drafts(self) -> bool:
        """Whether anything drafted: runs without a drafter are shipped beside those with one."""
        return self.method != "plain"


def gpu_recordings() -> list[GpuRecording]:
    """Recordings of runs on GPUs that come with rooftree: the first run of each target and method,
    then its repeats.

    Their files are called `TARGET--METHOD--SAMPLING[--run-N]`, so that choosing one reads none.

    Example:
        >>> [run.target for run in gpu_recordings() if run.method == "medusa"]
        ['vicuna-13b', 'vicuna-13b', 'vicuna-7b', 'vicuna-7b']
    """
    names = sorted(name for name in _by_name() if name.startswith(f"{_GPU}/"))
    return [
        GpuRecording(path=_by_name()[name], target=target, method=method)
        for name in names
        for target, method in [name.removeprefix(f"{_GPU}/").split("--")[:2]]
    ]


def trace_file(name: str | Path) -> Path:
    """The file of a recording that is named by path, or by the name of a shipped one
    (`catalogue/NAME` in a folder).

    Example:
        >>> trace = read_trace(trace_file("smollm2-135m--early-exit--greedy"))
        >>> trace.requests, trace.level, trace.provenance.method
        (48, 2, 'early-exit')
    """
    return _by_name().get(str(name), Path(name))


def trace_name(path: Path) -> str:
    """What names a recording on any machine: the name of a shipped one, else its path."""
    return _names().get(path.resolve(), str(path))


def is_confidence(path: str | Path) -> bool:
    """Whether a file is a confidence trace; what is wrong with any other file its reader says.

    What reads Parquet is loaded for Parquet alone.
    """
    if Path(path).suffix.lower() != ".parquet":
        return False
    from traces.storage.confidence_file import holds_confidence

    return holds_confidence(path)


def _is_of_confidence(name: str) -> bool:
    return name.startswith("confidence/")


@lru_cache(maxsize=1)
def _names() -> Mapping[Path, str]:
    """Names of shipped recordings by their files, links followed."""
    return {shipped.resolve(): name for name, shipped in _by_name().items()}


@lru_cache(maxsize=1)
def _by_name() -> Mapping[str, Path]:
    """Shipped recordings by their names, those of folders with the folder before them:
    `catalogue/NAME`.
    """
    return {
        path.relative_to(_FOLDER).with_suffix("").as_posix(): path
        for path in sorted(_FOLDER.rglob("*.parquet"))
    }
