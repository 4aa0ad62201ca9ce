"""Which text does the small masked model learn, and from which is it asked to go on?

Names of characters in the order of the Unicode Character Database, which Python ships, without
those that only number ideographs and syllables. A token is a character. Every sixteenth window is
held back for prompts, and never trained on. Leaves out training.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

_HELD_BACK = 16
_NUMBERED = ("CJK ", "HANGUL SYLLABLE", "TANGUT ", "NUSHU CHARACTER", "KHITAN SMALL")


@dataclass(frozen=True)
class Corpus:
    """The text as token ids.

    Attributes:
        window_tokens: tokens of a prompt and its canvas together.
    """

    window_tokens: int = 104

    @property
    def vocabulary(self) -> int:
        """Token ids, the mask's included, which is the last."""
        return len(_characters()) + 1

    @property
    def mask_id(self) -> int:
        """The id of a masked position."""
        return self.vocabulary - 1

    @property
    def title(self) -> str:
        """The text in words."""
        return (
            f"names of Unicode {unicodedata.unidata_version} characters, {self.vocabulary - 1}"
            " characters"
        )

    @property
    def sha256(self) -> str:
        """Digest of the token ids, and so of text and vocabulary."""
        digest = hashlib.sha256(json.dumps([self.vocabulary, self.window_tokens]).encode())
        digest.update(self.windows().tobytes())
        return digest.hexdigest()

    def windows(self) -> NDArray[np.int32]:
        """The text in windows, int32[windows, window_tokens]."""
        ids = _token_ids()
        count = len(ids) // self.window_tokens
        return ids[: count * self.window_tokens].reshape(count, self.window_tokens)

    def training_windows(self) -> NDArray[np.int32]:
        """Windows that a model may be trained on."""
        windows = self.windows()
        taught: NDArray[np.int32] = windows[np.arange(len(windows)) % _HELD_BACK != 0]
        return taught

    @property
    def held_back(self) -> int:
        """Windows that prompts can be taken from."""
        return -(-len(self.windows()) // _HELD_BACK)

    def prompts(self, count: int, *, first: int = 0) -> dict[str, NDArray[np.int32]]:
        """Windows held back, by names that tell their place, in van der Corput's order.

        Some of them from any one on lie evenly over the text, so that two such samples have as much
        of every script and differ less than drawn ones do.

        Args:
            count: how many.
            first: how many are passed over: other prompts for another `first`.
        """
        windows, held_back = self.windows(), self.held_back
        bits = (held_back - 1).bit_length()
        mirrored = (int(f"{at:0{bits}b}"[::-1], 2) for at in range(1 << bits))
        order = [at * _HELD_BACK for at in mirrored if at < held_back][first : first + count]
        return {f"names-{at}": windows[at] for at in order}

    def text(self, ids: NDArray[np.int32]) -> str:
        """Token ids as text, masks left out."""
        mask = self.mask_id
        return "".join(_characters()[token] for token in ids.tolist() if token != mask)


@cache
def _token_ids() -> NDArray[np.int32]:
    place = {character: at for at, character in enumerate(_characters())}
    return np.array([place[character] for character in _names()], dtype=np.int32)


@cache
def _characters() -> str:
    return "".join(sorted(set(_names())))


@cache
def _names() -> str:
    names = (unicodedata.name(chr(code), "") for code in range(sys.maxunicode + 1))
    return "\n".join(name for name in names if name and not name.startswith(_NUMBERED))
