"""Framing: an answer is the same however it is framed, one that is cut off says so, and no bytes do
harm."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from real_runs.servers.address import Address
from real_runs.servers.exchange import Patience, UnreachableError, exchange
from tests.property_examples import examples

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BODIES = st.binary(min_size=1, max_size=300)


def length(body):
    return HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def chunked(body, size=7):
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return (
        CHUNKED
        + b"".join(b"%x;note=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        + b"0\r\n\r\n"
    )


def received(answer, *, again=0, body=None, silence_s=20.0, most_bytes=1 << 20):
    """What a client makes of bytes after which the connection ends; None: of a server that reads
    nothing."""

    async def serve(reader, writer):
        try:
            if answer is None:
                writer.transport.pause_reading()
                await asyncio.Event().wait()
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            for _ in range(again):
                await asyncio.sleep(0.001)
                writer.write(b"1\r\nx\r\n")
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    async def ask():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = Address.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            return await exchange(
                address, "/", body, patience=Patience(silence_s=silence_s), most_bytes=most_bytes
            )
        finally:
            server.close()

    return asyncio.run(ask())


@given(BODIES, st.sampled_from([length, chunked, lambda body: HEAD + b"\r\n" + body]))
@settings(max_examples=examples(30), deadline=None)
def test_a_body_is_the_same_however_it_is_framed(body, framed):
    reply = received(framed(body))
    assert (reply.status, reply.kind, reply.error, reply.body) == (
        200,
        "text/event-stream",
        None,
        body,
    )
    assert b"\n".join(line for _, line in reply.lines()) == body.removesuffix(b"\n")
    assert all(reply.sent_s <= at_s for at_s, _ in reply.pieces)


@given(BODIES, st.sampled_from([length, chunked]), st.data())
@settings(max_examples=examples(30), deadline=None)
def test_an_answer_that_is_cut_off_says_so(body, framed, data):
    """What is behind the last chunk's size says nothing."""
    whole = framed(body).removesuffix(b"\r\n\r\n" if framed is chunked else b"")
    reply = received(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert reply.error == "the connection ended in the middle of the answer"
    assert body.startswith(reply.body)


@given(st.binary(max_size=200))
@settings(max_examples=examples(30), deadline=None)
def test_no_bytes_of_a_server_do_harm(noise):
    assert received(noise).error is not None
    assert len(received(CHUNKED + noise).body) <= len(noise)


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: many\r\n\r\n",
        CHUNKED + b"-1\r\n",
        HEAD + b"X: %s\r\n\r\n" % (b"x" * 20_000),
        HEAD + b"X: x\r\n" * 1000 + b"\r\n",
    ],
)
def test_a_head_that_is_none_or_has_no_end_is_refused(head):
    assert received(head + b"abcdefgh").error == "does not speak HTTP"


def test_small_pieces_count_as_what_they_take():
    reply = received(CHUNKED, again=700, most_bytes=640)
    assert reply.error == "the answer is larger than is read" and len(reply.pieces) <= 10


def test_a_server_that_never_takes_a_request_is_not_waited_for():
    reply = received(None, body="x" * (32 << 20), silence_s=0.3)
    assert (reply.error, reply.status) == ("the server was silent for 0.3 s", 0)


def test_a_host_that_is_no_name_is_not_looked_for():
    with pytest.raises(UnreachableError, match=r"http://a\.\.b:80: cannot be reached"):
        asyncio.run(exchange(Address.parse("http://a..b"), "/"))
