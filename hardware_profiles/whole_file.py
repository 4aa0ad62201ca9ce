"""How is a file, or a set of files, written so that readers see what was there before or all of the
new?

It grows beside its place under a name of its own and is then renamed. Its writer holds a lock on it
while it grows, by which the parts that a killed writer left are told from those that are being
written. Leaves out what is written.
"""

import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from hardware_profiles.errors import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover  (no such locks outside POSIX: nothing is swept there)
    fcntl = None  # type: ignore[assignment]

LEAST_FREE_BYTES = 1 << 20
"""What must be free where long work will be written."""
_MOST_NAME_BYTES = 200  # that are left of a long name
_PART = re.compile(r"\..*\.[0-9a-f]{32}\.part", re.DOTALL)
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# where the place itself may well be right
_MACHINE_FAILS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there.

    Raises:
        InputError: it cannot be made.
        OSError: the disk is full or fails.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from None


@contextmanager
def whole_file(path: Path, *, synced: bool = False) -> Iterator[Path]:
    """An empty file beside `path` that replaces it if nothing fails, and is removed otherwise.

    Two writers of one path never mix: the last one that ends is the one that is kept. A link in the
    place of `path` is replaced, and what it led to stays as it is. Parts that killed writers left
    in the folder are removed.

    Args:
        path: the file to be; its folder must exist.
        synced: on the disk before it takes the place, so that a power cut leaves the old or the new
            file.

    Raises:
        InputError: the place cannot be written, or something that is no plain file stands there.
        OSError: the disk is full or fails.
    """
    _require_plain(path)
    try:
        _swept(os.path.abspath(path.parent))  # noqa: PTH100 - Path.resolve follows links
        part, handle = _begun(path)
    except OSError as error:
        raise _refused(path, error) from None
    try:
        yield part
        if not _is_at(part, handle):
            raise InputError("another file took the place of what was being written", file=part)
        if synced:
            os.fsync(handle)
        part.replace(path)
    except OSError as error:
        raise _refused(path, error) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """An empty folder whose files take their places in `folder` together if nothing fails; else
    none of them does.

    A folder that was not there appears with all of its files at once. Where there is one, its other
    files stay and those of the same names are replaced when all are written, the deepest first: of
    a process killed between two of these renames, and of nothing else, old and new files remain
    side by side.

    Args:
        folder: where the files belong; made with those above it.

    Raises:
        InputError: the place cannot be written, or something that is no plain file stands in the
            place of one.
        OSError: the disk is full or fails.
    """
    fresh = not os.path.lexists(folder)
    make_folder(folder.parent if fresh else folder)
    try:
        _swept(os.path.abspath(folder.parent if fresh else folder))  # noqa: PTH100
        stage, handle = _begun(folder if fresh else folder / "files", is_folder=True)
    except OSError as error:
        raise _refused(folder, error) from None
    try:
        yield stage
        if fresh:
            with suppress(OSError):  # somebody else made it meanwhile
                stage.rename(folder)
                return
        _move_in(stage, folder)
    except OSError as error:
        raise _refused(folder, error) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        os.close(handle)


def require_room(folder: Path) -> None:
    """Find out before long work that nothing can be written into a folder, by writing into it.

    Args:
        folder: one that is there.

    Raises:
        InputError: it may not be written, or lies on a disk that can only be read.
        OSError: less than `LEAST_FREE_BYTES` are free, or the disk fails.
    """
    try:
        _swept(os.path.abspath(folder))  # noqa: PTH100
        part, handle = _begun(folder / "room")
        try:
            with suppress(AttributeError):  # not on every system
                os.posix_fallocate(handle, 0, LEAST_FREE_BYTES)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        finally:
            part.unlink(missing_ok=True)
            os.close(handle)
    except OSError as error:
        raise _refused(folder, error) from None


def _begun(path: Path, *, is_folder: bool = False) -> tuple[Path, int]:
    """A file or folder of a name that nobody else has, beside `path`, and a handle that locks
    it.
    """
    name = os.fsencode(path.name)[:_MOST_NAME_BYTES].decode("utf-8", "ignore")
    while True:
        part = path.parent / f".{name}.{uuid.uuid4().hex}.part"
        if is_folder:
            part.mkdir()
            handle = os.open(part, os.O_RDONLY | _AS_IT_IS)
        else:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AS_IT_IS, 0o666)
        # a sweep may have come between making and locking it
        if _has_locked(handle, unknown=True) and _is_at(part, handle):
            return part, handle
        os.close(handle)


@lru_cache(maxsize=1024)
def _swept(folder: str) -> None:
    """Remove the parts in a folder that no living process writes; once a process is enough."""
    with os.scandir(folder) as entries:
        parts = [Path(entry.path) for entry in entries if _PART.fullmatch(entry.name)]
    for part in parts:
        with suppress(OSError):
            handle = os.open(part, os.O_RDONLY | _AS_IT_IS | getattr(os, "O_NONBLOCK", 0))
            try:
                kind = os.fstat(handle).st_mode
                if not _has_locked(handle, unknown=False):
                    continue
                if stat.S_ISDIR(kind):
                    shutil.rmtree(part, ignore_errors=True)
                elif stat.S_ISREG(kind):
                    part.unlink()
            finally:
                os.close(handle)


def _has_locked(handle: int, *, unknown: bool) -> bool:
    """Whether a lock was free and is held now; `unknown` where the system or the disk has none."""
    if fcntl is None:  # pragma: no cover
        return unknown
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unknown
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Whether what a handle belongs to still stands at a path."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _move_in(stage: Path, folder: Path) -> None:
    """Let staged files take their places, those that may refer to others last."""
    names = [path.relative_to(stage) for path in stage.rglob("*") if path.is_file()]
    for name in names:
        _require_plain(folder / name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name in sorted(names, key=lambda name: (-len(name.parts), name)):
        (stage / name).replace(folder / name)


def _require_plain(path: Path) -> None:
    if not path.name or (os.path.lexists(path) and not path.is_file()):
        raise InputError("must be a plain file, or a name that is free", file=path)


def _refused(path: Path, error: OSError) -> Exception:
    """The error for a caller: a wrong path, or a machine that fails."""
    if error.errno in _MACHINE_FAILS:
        return OSError(error.errno, os.strerror(error.errno or 0), str(path))
    return InputError(f"cannot be written ({error.strerror or error})", file=path)
