"""Where is the machine code of compiled functions kept, so that no other version's is ever run?

numba keeps the code of a function by the file that the function stands in, though code of functions
that it calls is part of it. Its cache folder (`numba.config.CACHE_DIR`) is therefore named here by
a digest of all sources, so that another version has another folder. Leaves out what is compiled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

MOST_FOLDERS = 32
"""Kept of those that nobody has opened for an hour; those opened since then stay in any case."""
LEAST_FREE_BYTES = 64 << 20
"""On the disk; numba ends where code that it writes finds no room."""
_IN_USE_S = 3600.0
_DIGITS = 20
_SETTING = Lock()
"""Held while numba's setting is ours: decorators may run in several threads."""


def cached_njit(file: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` whose machine code is kept where it can be, and else made by every process anew.

    Args:
        file: beside or above all files that the code is made from; a change in any of them makes it
            anew.
        options: of `numba.njit`.

    Returns:
        A decorator that makes numba's dispatcher of a function.
    """
    options = {"no_cfunc_wrapper": True, **options}  # nobody calls it from C

    def cached(function: Callable[..., Any]) -> Any:
        from numba import config, njit

        with _SETTING:
            before = config.CACHE_DIR
            folder = code_folder(str(Path(file).parent), before)
            if folder is None:
                return njit(**options)(function)
            # numba does not tell code apart by the options that it was made with
            config.CACHE_DIR = str(folder / _digest(_options_text(options)))
            try:
                return njit(cache=True, **options)(function)
            finally:
                config.CACHE_DIR = before

    return cached


def is_compiled(file: str) -> bool:
    """Whether an earlier process left machine code that was made from these sources.

    Args:
        file: as for `cached_njit`.
    """
    from numba import config

    folder = code_folder(str(Path(file).parent), config.CACHE_DIR)
    return folder is not None and any(folder.rglob("*.nbi"))


@cache
def code_folder(sources: str, chosen: str) -> Path | None:
    """The folder for machine code made from sources as they are now; older ones are removed.

    Args:
        sources: folder of the sources.
        chosen: the user's `NUMBA_CACHE_DIR`; empty: the user's folder for caches.

    Returns:
        A folder that can be written; None where there is none, or the disk is full.
    """
    try:
        root = Path(chosen or _user_caches()) / "rooftree-code"
        folder = root / f"{Path(sources).name}-{source_digest(sources)}"
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        tempfile.TemporaryFile(dir=folder).close()
        if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
            return None
    except (OSError, RuntimeError):  # no such right, or no home folder
        return None
    _remove_unused(root)
    return folder


def source_digest(folder: str) -> str:
    """Digest of Python's and numba's release and of every file of Python in and below a folder,
    names included.
    """
    import numba

    parts = [f"{sys.version} {numba.__version__}".encode()]
    for path in sorted(Path(folder).rglob("*.py")):
        content = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        parts += [f"{name} {len(content)} ".encode(), content]
    return _digest(b"".join(parts))


def _user_caches() -> Path:
    """Where a user's programs keep what they can make again."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if os.environ.get(name):
            return Path(os.environ[name])
    return Path.home() / ".cache"


def _options_text(options: dict[str, Any]) -> bytes:
    plain = {
        name: sorted(value) if isinstance(value, set) else value for name, value in options.items()
    }
    return repr(sorted(plain.items())).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _remove_unused(root: Path) -> None:
    """Remove the folders opened longest ago. Whoever still runs their code has it in memory."""
    with suppress(OSError):  # another process may be removing the same ones
        opened = sorted(((path.stat().st_mtime, path) for path in root.iterdir()), reverse=True)
        for opened_s, path in opened[MOST_FOLDERS:]:
            if opened_s < time.time() - _IN_USE_S:
                shutil.rmtree(path, ignore_errors=True)
