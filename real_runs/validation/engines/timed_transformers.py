"""What does decoding a prompt in Transformers' own loops take, once?

Times are after the first pass, which reads the prompt. Leaves out rounds and their log
(`real_runs.validation.bench`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from real_runs.decoding.timed_pass import TimedPass
from real_runs.validation.configurations import Configuration
from real_runs.validation.engines.lookup_walk import lookup_walk

_PROBES = 3
_WARM_TOKENS = 4


def lookup_config(draft_tokens: int, ngram: int) -> dict[str, int]:
    """The generation config of prompt lookup with `draft_tokens` K and a longest n-gram; empty for
    K = 0, which is plain decoding.
    """
    if not draft_tokens:
        return {}
    return {"prompt_lookup_num_tokens": draft_tokens, "max_matching_ngram_size": ngram}


def digest(output: Sequence[int]) -> str:
    """SHA-256 of output ids, in hexadecimal."""
    return hashlib.sha256(repr(list(output)).encode()).hexdigest()


class TimedTransformers:
    """Transformers' model whose passes after the first are timed, with prompts to decode.

    Args:
        model: as `transformers_model` makes it.
        prompts: token ids by name.
        ngram: longest n-gram that is looked up.
        new_tokens: of every answer.
    """

    def __init__(
        self,
        model: Any,
        prompts: Mapping[str, Sequence[int]],
        *,
        ngram: int,
        new_tokens: int,
    ) -> None:
        self._prompts, self._ngram, self._new_tokens = prompts, ngram, new_tokens
        self._model, self._forward = model, model.forward
        self._passes: list[TimedPass] = []
        self._first: tuple[float, float] | None = None
        model.forward = self._timed

    def probes(self) -> list[float]:
        """Seconds of the same small pass, a few times: they tell how disturbed the machine is."""
        token, seconds = torch.zeros((1, 1), dtype=torch.long), []
        with torch.inference_mode():
            for _ in range(_PROBES):
                began = time.perf_counter()
                self._forward(input_ids=token, use_cache=False)
                seconds.append(time.perf_counter() - began)
        return seconds

    def warm(self, configuration: Configuration, prompts: Sequence[str]) -> None:
        """Decode a few tokens: code paths that run for the first time are in no run."""
        config = lookup_config(configuration.draft_tokens, self._ngram)
        self.generate(self._prompts[prompts[0]], _WARM_TOKENS, config)

    def plain(self, prompt: str) -> list[int]:
        """What plain greedy decoding writes after a prompt."""
        return self.generate(self._prompts[prompt], self._new_tokens, {})[0]

    def run(self, configuration: Configuration, prompts: Sequence[str]) -> dict[str, Any]:
        """Decode a prompt once; JSON values of `Run`, but for its place. Its drafts in the pass
        that reads the prompt count for nothing.
        """
        (prompt,) = (self._prompts[name] for name in prompts)
        draft_tokens = configuration.draft_tokens
        output, times = self.generate(
            prompt, self._new_tokens, lookup_config(draft_tokens, self._ngram)
        )
        return {
            "tokens": lookup_walk(prompt, output, draft_tokens, self._ngram).tokens,
            "drafted_tokens": 0,
            "output_sha256": digest(output),
            **times,
        }

    def generate(
        self, ids: Sequence[int], tokens: int, config: Mapping[str, Any]
    ) -> tuple[list[int], dict[str, Any]]:
        """Greedy output of exactly `tokens` tokens, and times as `Run` has them."""
        self._passes, self._first = [], None
        prompt = torch.tensor([list(ids)])
        options = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, **config}
        with torch.inference_mode():
            sequence = self._model.generate(
                prompt, attention_mask=torch.ones_like(prompt), **options
            )[0].tolist()
        wall, cpu = time.perf_counter(), time.process_time()
        assert self._first is not None
        output = [int(token) for token in sequence[len(ids) :]]
        return output, {
            "steps": len(self._passes),
            "request_steps": len(self._passes),
            "decode_s": wall - self._first[0],
            "cpu_s": cpu - self._first[1],
            "draft_s": 0.0,
            "verify_s": sum(timed_pass.wall_s for timed_pass in self._passes),
            "passes": tuple(self._passes),
        }

    def _timed(self, *args: Any, **options: Any) -> Any:
        ids = options["input_ids"] if "input_ids" in options else args[0]
        cache = options.get("past_key_values")
        context = int(cache.get_seq_length()) if cache is not None else 0
        began = time.perf_counter()
        output = self._forward(*args, **options)
        if self._first is None:
            self._first = time.perf_counter(), time.process_time()
        else:
            wall_s = time.perf_counter() - began
            self._passes.append(TimedPass(1, int(ids.shape[1]), context, wall_s))
        return output
