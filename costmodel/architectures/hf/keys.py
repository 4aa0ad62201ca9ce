"""How is one key of a config read, checked and blamed?

Every read names a key by its usual name; the family says how its configs spell it and what its
model class fills in. A wrong value is noted and reading goes on with one that is allowed, so that a
file's mistakes are reported together. Leaves out which keys an architecture needs (`config`).
"""

from collections.abc import Mapping

from costmodel.architectures.hf.family import COMMON_SPELLINGS, Bias, Family
from hardware_profiles.errors import InputError, joined

_WIDTH_LIMIT = 10_000_000


class ConfigKeys:
    """The keys of one config.

    Args:
        values: keys and values as parsed; untrusted.
        family: what configs of this family leave out.
        file: file that messages blame.
        prefix: put before keys in messages, where the config is part of a larger file.
        nested: the config stands inside a `text_config`, whose class fills in more.

    Attributes:
        mistakes: what is wrong so far.
        filled_in: class defaults that were used, by the key's usual name.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        family: Family,
        *,
        file: str,
        prefix: str = "",
        nested: bool = False,
    ) -> None:
        self._values, self._file, self._prefix = values, file, prefix
        self.family = family
        self.mistakes: list[InputError] = []
        self.filled_in: dict[str, object] = {}
        self._defaults = {**family.defaults, **(family.nested if nested else {})}
        for key, value in family.fixed.items():
            stated = self.get(key, value)
            if stated is not None and stated != value:
                self.mistakes.append(
                    self.error(key, f"only {value!r} is supported for this model type", stated)
                )

    def error(self, key: str, rule: str, value: object = None) -> InputError:
        """An error that names the file, and the key as the config spells it.

        Args:
            key: its usual name.
            rule: that is broken.
            value: that breaks it; None: not shown.
        """
        return InputError(
            rule, file=self._file, key=f"{self._prefix}{self._spelled(key)}", value=value
        )

    def settled(self, last: InputError | None = None) -> None:
        """Raise the mistakes that were collected.

        Args:
            last: an error about several keys at once; it counts alone, since other mistakes may
                have caused it.
        """
        # a key that is read twice is wrong once
        mistakes = {str(error): error for error in self.mistakes}
        if mistakes:
            raise joined(list(mistakes.values()))
        if last is not None:
            raise last

    def has(self, key: str) -> bool:
        """Whether the config itself gives the key, null included."""
        return any(name in self._values for name in self._spellings(key))

    def get(self, key: str, default: object = None) -> object:
        """The value as it stands; the class default, else `default`, where the config has no such
        key.
        """
        if self.has(key):
            return self._values[self._spelled(key)]
        if key in self._defaults:
            self.filled_in[key] = self._defaults[key]
        return self._defaults.get(key, default)

    def count(
        self, key: str, *, least: int = 1, most: int = _WIDTH_LIMIT, null: int | None = None
    ) -> int:
        """A whole number in [least, most]; `null` stands for null and for a key that nothing
        gives.
        """
        value = self.get(key)
        if value is None:
            if null is not None:
                return null
            value = self._defaults.get(key)
        rule = f"must be a whole number from {least} to {most}"
        if value is None:
            self.mistakes.append(self.error(key, f"is missing; it {rule}"))
        elif isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.mistakes.append(self.error(key, rule, value))
        else:
            return value
        return max(least, min(1, most))

    def flag(self, key: str) -> bool:
        """True or false; null and absence without a class default are false."""
        value = self.get(key)
        if value is None:
            value = self._defaults.get(key, False)
        if isinstance(value, bool):
            return value
        self.mistakes.append(self.error(key, "must be true or false", value))
        return False

    def bias(self, rule: Bias) -> bool:
        """What a family says of a whole, or what the key decides that it names."""
        return self.flag(rule) if isinstance(rule, str) else rule

    def table(self, key: str) -> Mapping[str, object]:
        """An object; null and absence are an empty one."""
        value = self.get(key)
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self.mistakes.append(self.error(key, "must be an object", value))
        return {}

    def entries(self, key: str) -> list[object] | None:
        """A list, or None for null and absence."""
        value = self.get(key)
        if value is None or isinstance(value, list):
            return value
        self.mistakes.append(self.error(key, "must be a list", value))
        return None

    def words(self, key: str, layers: int, allowed: tuple[str, ...]) -> list[str] | None:
        """A list with one allowed word per layer, or None for null and absence.

        Args:
            key: of the list.
            layers: of the model.
            allowed: words.

        Raises:
            InputError: no list, another length, or another word.
        """
        entries = self.entries(key)
        if entries is None:
            return None
        if len(entries) != layers:
            raise self.error(key, f"must have one entry per layer ({layers})", len(entries))
        words = []
        for entry in entries:
            word = _WORDS.get(entry, entry) if isinstance(entry, str) else ""
            if word not in allowed:
                raise self.error(key, f"must hold only {', '.join(allowed)}", entry)
            words.append(word)
        return words

    def numbers(self, key: str, layers: int) -> list[int]:
        """Layer numbers of a list, or of a string with commas between them (Step-3); none for null
        and absence.

        Args:
            key: of the list.
            layers: of the model.

        Raises:
            InputError: no list, or an entry that is no layer's number.
        """
        value = self.get(key)
        if isinstance(value, str) and key == "moe_layers_enum":
            parts = [part.strip() for part in value.split(",", layers)]
            entries: list[object] = [
                int(part) if part.isdecimal() and len(part) <= 5 else part for part in parts
            ]
        else:
            entries = self.entries(key) or []
        numbers = []
        for layer in entries:
            if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < layers:
                raise self.error(key, f"must hold layer numbers from 0 to {layers - 1}", layer)
            numbers.append(layer)
        return numbers

    def _spellings(self, key: str) -> tuple[str, ...]:
        return self.family.spellings.get(key) or COMMON_SPELLINGS.get(key) or (key,)

    def _spelled(self, key: str) -> str:
        names = self._spellings(key)
        present = [name for name in names if name in self._values]
        return next(
            (name for name in present if self._values[name] is not None), (present or names)[0]
        )


# names of layer kinds in configs that transformers 4 wrote
_WORDS: Mapping[str, str] = {
    "mamba": "linear_attention",
    "attention": "full_attention",
    "chunked_attention": "sliding_attention",
}
