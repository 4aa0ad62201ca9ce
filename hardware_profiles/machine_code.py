"""How is the machine code of a function kept on disk, so that no other version's is ever run in its
place?

On its own numba keeps an index a function, which names files by their number and is read before it
is known whose it is. After an upgrade in place, with a cache that two versions share, or after a
process was killed between index and file, the number leads to another version's code, or the index
names modules that are no longer there. Here a file's name is the digest of all that its code was
made from. Leaves out what is compiled.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hardware_profiles.errors import RooftreeError
from hardware_profiles.whole_file import whole_file

_DIGITS = 20
_UNUSED_S = (
    30 * 86400.0
)  # after which another version's code is removed where this one's is written


def cached_njit(file: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` whose machine code is kept where it can be, and else made by every process anew.

    Args:
        file: beside or above all files that the code is made from; a change in any of them makes it
            anew.
        options: of `numba.njit`.

    Returns:
        A decorator that makes numba's dispatcher of a function.

    Example:
        >>> @cached_njit(__file__, nogil=True)
        ... def doubled(x):
        ...     return 2 * x
    """
    from numba import njit

    def cached(function: Callable[..., Any]) -> Any:
        dispatcher = njit(no_cfunc_wrapper=True, **options)(function)  # nobody calls it from C
        try:
            dispatcher.enable_caching()
        except (
            RuntimeError,
            OSError,
        ):  # neither the package's folder nor the user's can be written
            return dispatcher
        caching = dispatcher._cache
        folder, base = Path(caching.cache_path), caching._impl.filename_base
        caching._cache_file = _CodeFiles(folder, base, _sources(str(Path(file).parent)), options)
        return dispatcher

    return cached


class _CodeFiles:
    """Kept code of one function; stands in for numba's index.

    Args:
        folder: where it is kept.
        base: of the files' names: the function's name, line and Python version.
        sources: digest of what it was made from.
        options: that it was made with.
    """

    def __init__(self, folder: Path, base: str, sources: str, options: dict[str, Any]) -> None:
        self.folder, self.base, self.sources = folder, base, sources
        self.options = sorted(
            (name, sorted(of) if isinstance(of, set) else of) for name, of in options.items()
        )

    def load(self, key: Any) -> Any:
        """The code for types and a processor; None where there is none that can be read."""
        import pickle

        # a damaged file may raise anything at all, and making the code anew is always right
        with suppress(Exception):
            known, code = pickle.loads(self._path(key).read_bytes())
            if known == key:
                return code
        return None

    def save(self, key: Any, code: Any) -> None:
        """Keep code; a disk that is full or read-only is no reason to end."""
        from numba.core.serialize import dumps

        with suppress(OSError, RooftreeError), whole_file(self._path(key)) as part:
            part.write_bytes(dumps((key, code)))
            self._remove_unused()

    def flush(self) -> None:
        """Forget all code of these sources."""
        for path in self.folder.glob(f"{self.base}.{self.sources}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        name = hashlib.sha256(repr((key, self.options)).encode()).hexdigest()[:_DIGITS]
        return self.folder / f"{self.base}.{self.sources}.{name}.nbc"

    def _remove_unused(self) -> None:
        for path in self.folder.glob(f"{self.base}.*.nb[ci]"):
            with suppress(OSError):
                if self.sources not in path.name and path.stat().st_mtime < time.time() - _UNUSED_S:
                    path.unlink()


@cache
def _sources(folder: str) -> str:
    """Digest of numba's release and of every file of Python in and below a folder, names
    included.
    """
    import numba

    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(folder).rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()[:_DIGITS]
