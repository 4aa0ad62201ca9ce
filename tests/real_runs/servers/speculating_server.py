"""A server that drafts: it draws the steps of every answer, and says of them what its engine would.

Written from the rules by which vLLM, SGLang and llama.cpp stream: vLLM an event per step with
usage so far, unless events are gathered; SGLang's `/generate` the same with counts in `meta_info`;
llama.cpp an event per token with running counts of drafts, none for a token that ends inside a
character. Counts of a request stand where the engine puts them: in the last event, and summed over
requests in `/metrics`.
"""

import json
from dataclasses import dataclass

import numpy as np

from tests.real_runs.servers.stub_server import Stub, event, send, serving, start

DRAFT_TOKENS = 3


@dataclass(frozen=True, kw_only=True)
class Steps:
    """One answer: tokens after its first by step, with what was drafted and kept in each."""

    drafted: tuple
    accepted: tuple
    behind_end: int = 0

    @property
    def emitted(self):
        whole = [1 + kept for kept in self.accepted]
        whole[-1:] = [tokens - self.behind_end for tokens in whole[-1:]]
        return tuple(whole)

    @property
    def histogram(self):
        kept = [a for d, a in zip(self.drafted, self.accepted, strict=True) if d]
        return np.bincount(kept, minlength=DRAFT_TOKENS + 1).tolist()

    @property
    def proposals(self):
        return sum(tokens > 0 for tokens in self.drafted)


def drawn_steps(tokens, generator, *, share=1.0, most=DRAFT_TOKENS):
    """Steps until an answer has its tokens; a share of them has a draft, of up to `most` tokens."""
    drafted, accepted, left = [], [], tokens - 1
    while left > 0:
        drafted.append(most if generator.random() < share else 0)
        accepted.append(int(generator.integers(drafted[-1] + 1)))
        left -= 1 + accepted[-1]
    return Steps(drafted=tuple(drafted), accepted=tuple(accepted), behind_end=-left)


def llama_cpp_marks(steps, *, is_by_step=False):
    """Counts (tokens, drafted, accepted) beside every token, the first one's among them."""
    marks, tokens, drafted, accepted = [(1, 0, 0)], 1, 0, 0
    for emitted, proposed, kept in zip(steps.emitted, steps.drafted, steps.accepted, strict=True):
        drafted, accepted = drafted + proposed, accepted + kept
        ends = range(tokens + 1, tokens + emitted + 1)
        marks += [(tokens + emitted if is_by_step else end, drafted, accepted) for end in ends]
        tokens += emitted
    return marks


class Speculating(Stub):
    """What the server does, beside what a stub does.

    Args:
        share: of the steps, those with a draft.
        gathers_steps: steps of one event.
        per_request: of vLLM: none, summary or detailed.
        drafts: whether it has a drafter at all.
        others: drafts that the counters hold of other users.
        holds: of llama.cpp, tokens whose event is not sent: every so many; 0: none.
        forms_chats: whether it forms a user's turn.
        counts_tokens: of vLLM: whether events say how many tokens there are.
    """

    def __init__(
        self,
        kind="vllm",
        *,
        share=1.0,
        gathers_steps=1,
        per_request="none",
        drafts=True,
        others=0,
        holds=0,
        forms_chats=True,
        counts_tokens=True,
        has_counters=True,
        **options,
    ):
        super().__init__(kind, **options)
        self.share, self.gathers_steps, self.per_request = share, gathers_steps, per_request
        self.drafts, self.others, self.holds = drafts, others, holds
        self.forms_chats, self.counts_tokens = forms_chats, counts_tokens
        self.has_counters, self.answered, self.scraped = has_counters, [], 0

    async def answer(self, method, path, body, writer):
        if path == "/metrics" and self.has_counters:
            send(writer, self.counters(), kind="text/plain")
            self.scraped += 1
        elif path == "/slots" and self.kind == "llama.cpp":
            send(writer, json.dumps([{"id": 0, "speculative": self.drafts}]))
        elif path == "/server_info" and self.kind == "sglang":
            algorithm = "EAGLE3" if self.drafts else None
            info = {"speculative_algorithm": algorithm, "speculative_eagle_topk": 1}
            send(writer, json.dumps(info))
        elif path == "/apply-template" and self.forms_chats:
            send(writer, json.dumps({"prompt": "<user>" + body["messages"][0]["content"]}))
        elif path == "/tokenize" and self.forms_chats and ("messages" in body or "content" in body):
            send(writer, json.dumps({"tokens": [1, *range(500, 600)]}))
        elif path == "/generate" and self.kind == "sglang":
            self.bodies.append(body)
            await self.stream(body, writer, self.fault_now())
            await writer.drain()
        else:
            await super().answer(method, path, body, writer)

    def fault_now(self):
        return self.fault if len(self.bodies) > self.fails_from else ""

    async def stream(self, body, writer, fault):
        if fault:
            await super().stream(body, writer, fault)
            return
        sampling = body.get("sampling_params", {})
        tokens = body.get("n_predict") or body.get("max_tokens") or sampling.get("max_new_tokens")
        seed = sum(
            map(ord, json.dumps(body.get("prompt", body.get("input_ids", body.get("text")))))
        )
        steps = drawn_steps(
            tokens, np.random.default_rng(seed + len(self.answered)), share=self.share
        )
        if not self.drafts:
            steps = Steps(drafted=(0,) * (tokens - 1), accepted=(0,) * (tokens - 1))
        self.answered.append(steps)
        start(writer, "text/event-stream")
        own = {"llama.cpp": self._llama_cpp, "sglang": self._sglang}.get(self.kind, self._vllm)
        for said in (self._vllm if "stream_options" in body else own)(body, steps, tokens):
            event(writer, said)
        writer.write(b"0\r\n\r\n")

    def _ends(self, steps):
        """Tokens so far at every event."""
        ends = np.cumsum([1, *steps.emitted]).tolist()
        return [*ends[:-1][:: self.gathers_steps], ends[-1]] if len(ends) > 1 else ends

    def _vllm(self, body, steps, tokens):
        prompt = len(body["prompt"])
        is_counted = self.counts_tokens and body["stream_options"].get("continuous_usage_stats")

        def usage(count):
            return {"prompt_tokens": prompt, "completion_tokens": count}

        for end in self._ends(steps):
            # a text may be empty while a character is not whole; tokens are counted all the same
            reason = "length" if end == tokens else None
            said = {"choices": [{"text": "x" * (end % 2), "finish_reason": reason}]}
            yield said | ({"usage": usage(end)} if is_counted else {})
        metrics = None
        if self.per_request != "none" and self.drafts:
            metrics = {
                "acceptance_histogram": steps.histogram,
                "num_spec_steps": steps.proposals,
                "num_accepted_draft_tokens": sum(steps.accepted),
                "num_draft_tokens": sum(steps.drafted),
                "num_spec_tokens": DRAFT_TOKENS,
                "mean_acceptance_length": 1.5,
            }
        if metrics is not None and self.per_request == "detailed":
            both = list(zip(steps.drafted, steps.accepted, strict=True))
            metrics["per_step_accepted"] = [kept for drafted, kept in both if drafted]
            metrics["per_step_drafted"] = [drafted for drafted, _ in both if drafted]
        last = {"choices": [], "usage": usage(tokens)}
        yield last | ({} if metrics is None else {"metrics": {"speculative_decoding": metrics}})

    def _sglang(self, body, steps, tokens):
        prompt = len(body.get("input_ids") or body["text"])
        for end in self._ends(steps):
            info = {
                "id": "a",
                "finish_reason": None,
                "prompt_tokens": prompt,
                "completion_tokens": end,
                "cached_tokens": 1,
            }
            if end == tokens:
                info["finish_reason"] = {"type": "length", "length": tokens}
                if self.drafts:
                    info |= {
                        "spec_accept_rate": 0.5,
                        "spec_verify_ct": len(steps.emitted),
                        "spec_num_correct_drafts": sum(steps.accepted),
                        "spec_num_proposed_drafts": sum(steps.drafted),
                        "spec_correct_drafts_histogram": steps.histogram,
                    }
            yield {"text": "x" * end, "output_ids": [0] * end, "meta_info": info}

    def _llama_cpp(self, body, steps, tokens):
        marks = llama_cpp_marks(steps)
        for number, mark in enumerate(marks, start=1):
            if self.holds and number % self.holds == 0:
                continue
            said = {"content": "x", "tokens": [number], "stop": False}
            yield said | ({"timings": _timings(mark)} if body.get("timings_per_token") else {})
        yield {
            "content": "",
            "tokens": [],
            "stop": True,
            "stop_type": "limit",
            "tokens_predicted": tokens,
            "tokens_evaluated": len(body["prompt"]),
            "timings": _timings(marks[-1]) | {"cache_n": 0},
        }

    def counters(self):
        others = self.others if self.scraped else 0
        histogram = np.sum([steps.histogram for steps in self.answered] or [[0] * 4], axis=0)
        reached = np.cumsum(histogram[::-1])[::-1][1:]
        prefix = {"vllm": "vllm", "llama.cpp": "llamacpp"}.get(self.kind, "sglang")
        lines = [f"# TYPE {prefix}:running gauge", f"{prefix}:num_requests_running 1"]
        if self.drafts and prefix != "sglang":
            sums = {
                "num_drafts": others + sum(steps.proposals for steps in self.answered),
                "num_draft_tokens": others * DRAFT_TOKENS
                + sum(sum(steps.drafted) for steps in self.answered),
                "num_accepted_tokens": sum(sum(steps.accepted) for steps in self.answered),
            }
            lines += [f"{prefix}:spec_decode_{name}_total {count}" for name, count in sums.items()]
            lines += [
                f'{prefix}:spec_decode_num_accepted_tokens_per_pos_total{{position="{at}"}} {count}'
                for at, count in enumerate(reached)
            ]
        return "\n".join(lines) + "\n"


def _timings(mark):
    tokens, drafted, accepted = mark
    drafts = {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}
    return {"predicted_n": tokens, "prompt_ms": 1.0, **drafts}


def speculating(kind, **options):
    """A server that drafts, in a thread: its URL, and itself."""
    return serving(kind, of=Speculating, **options)
