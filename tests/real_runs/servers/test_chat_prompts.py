"""Users' turns in the chat form of a server's model: token ids, or nothing."""

import json

import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.chat_prompts import chat_prompts
from real_runs.servers.identify import identify
from tests.real_runs.servers.speculating_server import Speculating, speculating
from tests.real_runs.servers.stub_server import send, serving


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
def test_every_turn_has_its_tokens(kind):
    with speculating(kind) as (url, _):
        formed = chat_prompts(identify(Address.parse(url)), ["a", "b"])
    assert formed == [(1, *range(500, 600))] * 2
    with speculating(kind, forms_chats=False, tokenizes=False) as (url, _):
        assert chat_prompts(identify(Address.parse(url)), ["a", "b"]) is None


@pytest.mark.parametrize("tokens", [None, [], [1, -1], [1, True], "12", [1] * ((1 << 20) + 1)])
def test_what_are_no_token_ids_is_refused(tokens):
    class Odd(Speculating):
        async def answer(self, method, path, body, writer):
            if path == "/tokenize":
                send(writer, json.dumps({"tokens": tokens}))
            else:
                await super().answer(method, path, body, writer)

    with (
        serving("vllm", of=Odd) as (url, _),
        pytest.raises(InputError, match="/tokenize: must answer token ids"),
    ):
        chat_prompts(identify(Address.parse(url)), ["a"])
