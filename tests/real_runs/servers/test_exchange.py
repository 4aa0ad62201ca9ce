"""Framing: however an answer is cut into pieces its body is the same, and no bytes do harm."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from real_runs.servers.exchange import _Receiver

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
BODIES = st.binary(max_size=300)
CUTS = st.lists(st.integers(0, 700), max_size=6)


def chunked(body, sizes):
    parts, at = [], 0
    for size in sizes:
        if piece := body[at : at + size]:
            parts.append(b"%x;note=1\r\n%s\r\n" % (len(piece), piece))
        at += size
    rest = body[at:]
    parts += [b"%X\r\n%s\r\n" % (len(rest), rest)] if rest else []
    return HEAD + b"Transfer-Encoding: Chunked\r\n\r\n" + b"".join(parts) + b"0\r\n\r\n"


def received(answer, cuts=(), most_bytes=1 << 20):
    """What a client makes of bytes that come in these pieces, after which the connection ends."""

    async def receive():
        receiver = _Receiver(most_bytes)
        for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
            receiver.data_received(answer[start:end])
        receiver.connection_lost(None)
        return receiver.reply

    return asyncio.run(receive())


@given(BODIES, CUTS, st.lists(st.integers(1, 90), max_size=5), st.sampled_from(["chunked", "length", "end"]))
@settings(max_examples=60, deadline=None)
def test_a_body_is_the_same_however_it_is_framed_and_cut(body, cuts, sizes, framing):
    answer = {
        "chunked": chunked(body, sizes),
        "length": HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        "end": HEAD + b"\r\n" + body,
    }[framing]
    reply = received(answer, sorted(cuts))
    assert (reply.status, reply.kind, reply.error, reply.body) == (200, "text/event-stream", None, body)
    assert b"\n".join(line for _, line in reply.lines()) == body.removesuffix(b"\n")


@given(BODIES.filter(len), st.data())
@settings(max_examples=40, deadline=None)
def test_an_answer_that_is_cut_off_says_so(body, data):
    """The blank line behind the last chunk, which says nothing, is not waited for."""
    ends = chunked(body, [7]).removesuffix(b"\r\n"), HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    whole = data.draw(st.sampled_from(ends))
    reply = received(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert reply.error == "the connection ended in the middle of the answer"
    assert body.startswith(reply.body)


@given(st.binary(max_size=200))
@settings(max_examples=40, deadline=None)
def test_no_bytes_of_a_server_do_harm(noise):
    assert received(noise).error is not None
    reply = received(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + noise)
    assert len(reply.body) <= len(noise)


@pytest.mark.parametrize(
    "field", [b"Content-Length: -5", b"Content-Length: many", b"Transfer-Encoding: chunked\r\n\r\n-1"]
)
def test_a_length_that_is_none_is_refused(field):
    assert received(HEAD + field + b"\r\n\r\nabcdefgh").error == "does not speak HTTP"


def test_many_small_pieces_count_as_what_they_take():
    answer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 500 + b"0\r\n\r\n"
    assert received(answer).body == b"x" * 500
    assert received(answer, most_bytes=64 * 499).error == "the answer is larger than is read"
