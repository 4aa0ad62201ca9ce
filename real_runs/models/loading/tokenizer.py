"""How does text become token ids, and ids text?

Wraps the tokenizer that a model's own files carry, with its chat template. Nothing is downloaded
and no code of the model's is run. Leaves out every model that has no tokenizer beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hardware_profiles.errors import InputError


class Tokenizer:
    """Tokenizer and chat template of one model.

    Args:
        path: a `.gguf` file or a Hugging Face folder.

    Raises:
        InputError: no tokenizer there that can be read.
    """

    def __init__(self, path: Path) -> None:
        kind: Any = AutoTokenizer
        place = {"pretrained_model_name_or_path": str(path)}
        if path.suffix == ".gguf":
            # the automatic class reads the whole file to tell the model's type, which the tokenizer
            # does not depend on
            kind = PreTrainedTokenizerFast
            place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self._tokenizer = kind.from_pretrained(
                    **place, local_files_only=True, trust_remote_code=False
                )
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"holds no tokenizer that can be read ({error})", file=path
                ) from None

    def chat_ids(self, prompt: str) -> list[int]:
        """Ids of one user turn, ready for the answer; the bare text where the model has no chat
        template.
        """
        if not self._tokenizer.chat_template:
            return self.ids(prompt)
        turns = [{"role": "user", "content": prompt}]
        text = self._tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=False
        )
        return self.ids(text)

    def ids(self, text: str) -> list[int]:
        """Ids of a text, no special tokens added."""
        return [
            int(token)
            for token in self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        ]

    def text(self, ids: Sequence[int]) -> str:
        """Text of some ids, special tokens left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
