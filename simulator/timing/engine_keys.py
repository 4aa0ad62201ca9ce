"""Which keys may an engine's recorded settings have, and what do they hold?

Checked look-ups in one JSON object. A key is read, is known to leave times alone, or is refused by
its name: a setting that nobody reads must not pass as if it had been. Leaves out what the values
mean (`engine_settings`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hardware_profiles.errors import InputError, UnknownNameError
from traces.importers.files import expect_object

MOST_SIZE = 1 << 24
# arguments of vLLM that name, place or log things
NO_TIME = frozenset(
    {
        "chat_template",
        "code_revision",
        "config_format",
        "disable_log_requests",
        "disable_log_stats",
        "distributed_executor_backend",
        "download_dir",
        "generation_config",
        "hf_token",
        "load_format",
        "model_impl",
        "port",
        "revision",
        "seed",
        "served_model_name",
        "skip_tokenizer_init",
        "tokenizer",
        "tokenizer_mode",
        "tokenizer_revision",
        "trust_remote_code",
    }
)


@dataclass(frozen=True, slots=True)
class Keys:
    """One JSON object; null counts as absent.

    Args:
        values: of the object.
        file: it stands in.
        place: of the object in the file.
    """

    values: Mapping[str, Any]
    file: str
    place: str

    def only(self, read: Collection[str], passed_over: Collection[str] = ()) -> Keys:
        """The object itself, once none of its keys goes unread.

        Args:
            read: keys that somebody reads.
            passed_over: keys that are known to leave times alone.

        Raises:
            UnknownNameError: another key that is not null.
        """
        for key, value in self.values.items():
            if value is not None and key not in read and key not in passed_over:
                raise UnknownNameError(
                    "setting", key, sorted(read), file=self.file, key=self.named(key)
                )
        return self

    def inside(self, key: str) -> Keys:
        """The object that a key holds, empty where it is absent."""
        value = self.values.get(key)
        return Keys(
            expect_object({} if value is None else value, self.file, key),
            self.file,
            self.named(key),
        )

    def objects(self, key: str) -> tuple[Keys, ...]:
        """The objects of the list that a key holds, or the one object; none where it is absent."""
        value = self.values.get(key)
        rows = value if isinstance(value, list) else [] if value is None else [value]
        places = [f"{self.named(key)}[{at}]" for at in range(len(rows))]
        return tuple(
            Keys(expect_object(row, self.file, place), self.file, place)
            for row, place in zip(rows, places, strict=True)
        )

    def whole(self, key: str, default: int) -> int:
        """A whole number in 1..`MOST_SIZE`.

        Raises:
            InputError: another value.
        """
        value = self._or(key, default)
        if type(value) is not int or not 1 <= value <= MOST_SIZE:
            rule = f"must be a whole number in 1..{MOST_SIZE}"
            raise InputError(rule, file=self.file, key=self.named(key), value=value)
        return value

    def number(self, key: str, default: float) -> float:
        """A finite number >= 0.

        Raises:
            InputError: another value.
        """
        value = self._or(key, default)
        if type(value) not in (int, float) or not 0.0 <= value < float("inf"):
            raise InputError(
                "must be a number >= 0", file=self.file, key=self.named(key), value=value
            )
        return float(value)

    def truth(self, key: str, default: bool) -> bool:
        """True or false.

        Raises:
            InputError: another value.
        """
        value = self._or(key, default)
        if not isinstance(value, bool):
            raise InputError(
                "must be true or false", file=self.file, key=self.named(key), value=value
            )
        return value

    def text(self, key: str, default: str) -> str:
        """Text.

        Raises:
            InputError: another value.
        """
        value = self._or(key, default)
        if not isinstance(value, str):
            raise InputError("must be text", file=self.file, key=self.named(key), value=value)
        return value

    def must_be(self, key: str, only: object, why: str) -> None:
        """Refuse any other value of a key.

        Raises:
            InputError: with `why`.
        """
        value = self.values.get(key)
        if value is not None and (
            value != only or isinstance(value, bool) != isinstance(only, bool)
        ):
            raise InputError(why, file=self.file, key=self.named(key), value=value)

    def named(self, key: str) -> str:
        """Where a key stands in the file."""
        return f"{self.place}.{key}" if self.place else key

    def _or(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value
