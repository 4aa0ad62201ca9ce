"""Which releases of an engine have been read, and which of them speak for a release in between?

A release between two that were read is held to the rules of both; one outside them is unknown. What
changed within a gap and changed back is not seen.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hardware_profiles.errors import InputError

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:rc(\d+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The releases that have something: first and last read release that do, None for "still
    there".

    Args:
        first: oldest read release that has it.
        last: newest read release that has it, None while the newest still does.
        why: what to say to someone outside the gate, where "from ... to ..." is not enough.
    """

    first: str
    last: str | None = None
    why: str = ""

    def admits(self, release: str) -> bool:
        """Whether a release lies inside the gate."""
        key = release_key(release)
        return release_key(self.first) <= key and (
            self.last is None or key <= release_key(self.last)
        )

    @property
    def span(self) -> str:
        """The gate in words."""
        until = "" if self.last is None else f" to {self.last}"
        return f"exists from {self.first}{until}" + (f"; {self.why}" if self.why else "")


def release_key(version: str) -> tuple[float, ...]:
    """An order over releases: "1.3.0rc27" before "1.3.0", a missing patch number counting as 0."""
    match = _RELEASE.fullmatch(version)
    if match is None:
        return (float("-inf"),)
    major, minor, patch, candidate = match.groups()
    return (
        int(major),
        int(minor),
        int(patch or 0),
        float(candidate) if candidate else float("inf"),
    )


def releases_for(engine: str, version: str, read: Sequence[str]) -> tuple[str, ...]:
    """The read releases whose rules a version must meet: itself, or its two neighbours.

    Args:
        engine: for the message.
        version: the release asked for.
        read: releases whose sources were read, oldest first.

    Raises:
        InputError: the version is no release number, or lies outside those read.
    """
    key = release_key(version)
    same = [release for release in read if release_key(release) == key]
    if same:
        return (same[0],)
    older = [release for release in read if release_key(release) < key]
    newer = [release for release in read if release_key(release) > key]
    if not older or not newer:
        span = read[0] if len(read) == 1 else f"{read[0]} to {read[-1]}"
        raise InputError(
            f"{engine}: the rules of {span} are known, and of no other",
            key="version",
            value=version,
        )
    return (older[-1], newer[0])
