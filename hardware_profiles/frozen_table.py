"""How does a frozen dataclass hold a table by name?

A mapping that nobody can change. Leaves out what the names and values are.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class FrozenTable(Mapping[str, V], Generic[V]):
    """A mapping that cannot change and can be hashed, compared with any mapping, copied and
    pickled.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, V]) -> None:
        self._entries: dict[str, V] = (
            entries._entries if isinstance(entries, FrozenTable) else dict(entries)
        )

    def __getitem__(self, key: str) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"FrozenTable({self._entries!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenTable, (self._entries,)
