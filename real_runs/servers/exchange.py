"""What does a server answer to one request, and when did each piece of it arrive?

One request over one HTTP/1.1 connection of its own, through aiohttp. Each piece has the time at
which its socket was read, before anything is parsed: hundreds of streams that speak at once would
otherwise wait for each other's parsing. No redirect is followed, no proxy of the environment is
used, no cookie is kept, and everything is bounded. Leaves out what the answer says
(`real_runs.servers.client`).
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address

MOST_BYTES = 64 << 20
_MOST_LINE_BYTES = 1 << 20
_PIECE_BYTES = 64  # that the shortest piece counts as, because each takes memory of its own
_LONGEST_SHOWN = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long to wait before a server counts as gone.

    Attributes:
        connect_s: for a connection, > 0.
        silence_s: between two pieces of an answer, and before its first, > 0.
    """

    connect_s: float = 10.0
    silence_s: float = 300.0


class UnreachableError(InputError):
    """No connection: nothing listens there, the name is unknown, or nobody takes the connection in
    time.
    """


class BrokenAnswerError(InputError):
    """A connection that ended, fell silent or spoke something else before its answer was whole."""


@dataclass(kw_only=True, slots=True)
class Reply:
    """An answer, or as much of it as arrived.

    Attributes:
        sent_s: when the request was handed to an established connection, on `time.monotonic`'s
            clock.
        status: HTTP status; 0 where no head arrived.
        kind: media type in lower case, without parameters.
        pieces: times of arrival and bytes of the body, framing removed.
        error: why the body is not whole; None where it is.
    """

    sent_s: float
    status: int = 0
    kind: str = ""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    error: str | None = None

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(piece for _, piece in self.pieces)

    def lines(self) -> Iterator[tuple[float, bytes]]:
        """Lines of the body with the time at which each was whole; the last needs no line end where
        the body is whole.

        Raises:
            BrokenAnswerError: a line is longer than is read.
        """
        rest, at_s = b"", self.sent_s
        for at_s, piece in self.pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield at_s, line
            if len(rest) > _MOST_LINE_BYTES:
                raise BrokenAnswerError(f"a line of the answer exceeds {_MOST_LINE_BYTES} bytes")
        if rest and self.error is None:
            yield at_s, rest


async def exchange(
    address: Address,
    path: str,
    body: object = None,
    *,
    patience: Patience | None = None,
    most_bytes: int = MOST_BYTES,
) -> Reply:
    """Send one request and receive its answer.

    Args:
        address: the server.
        path: below the address, from its slash.
        body: JSON value to post; None asks by GET.
        patience: None is the usual.
        most_bytes: of the answer's body.

    Returns:
        What arrived; where the answer broke off, fell silent or grew too large, its `error` says
        so.

    Raises:
        UnreachableError: no connection.
    """
    patience, reply = patience or Patience(), Reply(sent_s=math.nan)
    try:
        async with asyncio.timeout(patience.connect_s) as waiting:
            await _receive(reply, address, path, body, waiting, patience.silence_s, most_bytes)
    except TimeoutError:
        if math.isnan(reply.sent_s):
            rule = f"does not take a connection within {patience.connect_s:g} s"
            raise UnreachableError(rule, key=str(address)) from None
        reply.error = f"the server was silent for {patience.silence_s:g} s"
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL, UnicodeError) as error:
        code = getattr(error, "errno", None)
        reason = (
            os.strerror(code)
            if code and code > 0
            else getattr(error, "strerror", None) or str(error)
        )
        raise UnreachableError(f"cannot be reached ({reason})", key=str(address)) from None
    except aiohttp.ClientError as error:
        cut = isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)
        reply.error = (
            "the connection ended in the middle of the answer" if cut else "does not speak HTTP"
        )
    return reply


class _Stamped(socket.socket):
    """A socket that knows when it was last read: asyncio wakes an answer's task behind all that
    arrived beside it.
    """

    read_s = 0.0

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        self.read_s = time.monotonic()
        return data

    def recv_into(self, *arguments: Any) -> int:  # below TLS
        count = super().recv_into(*arguments)
        self.read_s = time.monotonic()
        return count


async def _receive(
    reply: Reply,
    address: Address,
    path: str,
    body: object,
    waiting: asyncio.Timeout,
    silence_s: float,
    most_bytes: int,
) -> None:
    """Fill a reply; the timeout is put off by every step, while aiohttp's own begins where a body
    has been taken.
    """
    sockets: list[_Stamped] = []

    def opened(info: aiohttp.AddrInfoType) -> socket.socket:
        sockets.append(_Stamped(*info[:3]))
        return sockets[-1]

    async def sending(*_: object) -> None:
        reply.sent_s = time.monotonic()
        waiting.reschedule(reply.sent_s + silence_s)

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(sending)
    tracing.on_request_headers_sent.append(sending)
    tracing.on_request_chunk_sent.append(sending)  # heads wait for the first bytes of a body
    headers = {"User-Agent": "rooftree", "Accept-Encoding": "identity"}
    if address.api_key:
        headers["Authorization"] = f"Bearer {address.api_key}"
    content = (
        None if body is None else io.BytesIO(json.dumps(body).encode())
    )  # of which aiohttp sends pieces
    if content is not None:
        headers["Content-Type"] = "application/json"
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=opened),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(),
            trace_configs=[tracing],
        ) as session,
        session.request(
            "GET" if content is None else "POST",
            URL(f"{address}{path}", encoded=True),
            data=content,
            allow_redirects=False,
        ) as response,
    ):
        reply.status, reply.kind = response.status, response.content_type
        async for piece in response.content.iter_any():
            at_s = (
                max(socket.read_s for socket in sockets) or time.monotonic()
            )  # 0: a loop that reads by other means
            waiting.reschedule(at_s + silence_s)
            most_bytes -= max(len(piece), _PIECE_BYTES)
            if most_bytes < 0:
                reply.error = "the answer is larger than is read"
                return
            reply.pieces.append((at_s, piece))


def printable(text: str, most: int) -> str:
    """The beginning of a server's text as one line that a terminal shows and does not obey."""
    return "".join(
        character if character.isprintable() else " " for character in text[:most]
    ).strip()


async def fetch_text(
    address: Address, path: str, body: object = None, *, patience: Patience | None = None
) -> str | None:
    """The text that a server has under a path, or answers to a JSON value; None where it refuses
    (status >= 400).

    Raises:
        UnreachableError: no connection.
        BrokenAnswerError: an answer that is not whole, a redirect, which is not followed, or a key
            that is asked for.
    """
    reply = await exchange(address, path, body, patience=patience)
    if reply.error is not None:
        raise BrokenAnswerError(reply.error, key=f"{address}{path}")
    if 300 <= reply.status < 400:
        raise BrokenAnswerError(
            "redirects elsewhere, which is not followed", key=f"{address}{path}"
        )
    if reply.status in (401, 403):
        raise BrokenAnswerError(
            f"asks for a key (HTTP {reply.status}): see --key-env", key=f"{address}{path}"
        )
    return None if reply.status >= 400 else reply.body.decode("utf-8", errors="replace")


async def fetch_object(
    address: Address, path: str, body: object = None, *, patience: Patience | None = None
) -> Mapping[str, Any] | None:
    """The JSON object that a server has under a path, or answers to a JSON value; None where it
    refuses.

    Raises:
        UnreachableError: no connection.
        BrokenAnswerError: an answer that is not whole or no JSON object.
    """
    text = await fetch_text(address, path, body, patience=patience)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BrokenAnswerError(
            "must answer a JSON object",
            key=f"{address}{path}",
            value=printable(text, _LONGEST_SHOWN),
        )
    return value
