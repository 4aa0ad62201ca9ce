"""How do many files become one, the same bytes every time, and how are they extracted?

Zip archives with sorted names, no dates and no rights. Archives from outside are not trusted: plain
names, bounded sizes. Leaves out what the files hold.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file

MAX_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 256 << 20
_NAME = re.compile(r"^(?!.*\.\.)[A-Za-z0-9._-]{1,200}(?:/[A-Za-z0-9._-]{1,200}){0,3}$")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip archive knows
_COMPRESSED = (".parquet", ".zip", ".safetensors")


def packed(files: Mapping[str, bytes], path: Path) -> int:
    """Write files as one archive, whole or not at all.

    Args:
        files: contents by name; names are sorted. Parquet and weights are stored, other files
            deflated.
        path: the archive.

    Returns:
        Its size in bytes.

    Raises:
        InputError: a name that is not plain, or a place that cannot be written.
    """
    with whole_file(path, synced=True) as part:
        with zipfile.ZipFile(part, "w") as archive:
            for name in sorted(files):
                _check_name(name, path)
                stored = name.endswith(_COMPRESSED)
                entry = zipfile.ZipInfo(name, date_time=_EPOCH)
                entry.create_system = 3
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                archive.writestr(entry, files[name])
        return part.stat().st_size


def unpacked(path: Path, *, most_bytes: int = MAX_UNPACKED_BYTES) -> dict[str, bytes]:
    """Contents of an archive by name, sorted.

    Args:
        path: the archive.
        most_bytes: all files together.

    Raises:
        InputError: absent, damaged, too large, or with names that are not plain.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES or sum(entry.file_size for entry in entries) > most_bytes:
                raise InputError(
                    f"must hold at most {MAX_ENTRIES} files of {most_bytes} bytes together",
                    file=path,
                )
            contents = {}
            for entry in sorted(entries, key=lambda info: info.filename):
                _check_name(entry.filename, path)
                contents[entry.filename] = archive.read(entry)
            return contents
    # zipfile raises NotImplementedError for compressions that it lacks, RuntimeError for encrypted
    # entries
    except (
        OSError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
    ) as error:
        raise InputError(f"must be a whole zip archive ({error})", file=path) from None


def _check_name(name: str, path: Path) -> None:
    if not _NAME.match(name):
        raise InputError("must hold files with plain names only", file=path, value=name[:200])
