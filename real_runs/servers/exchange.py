"""What does a server answer to one request, and when did each piece of it arrive?

One request over one HTTP/1.1 connection of its own, on the standard library's event loop. Each piece is stamped where
it is received, before anything is parsed: hundreds of streams that speak at once would otherwise wait for each other's
parsing. No redirect is followed, no proxy of the environment is used, no cookie is kept, and everything is bounded.
Leaves out what the answer says (`real_runs.servers.client`).
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address

MOST_BYTES = 64 << 20
_MOST_HEAD_BYTES = 1 << 16
_MOST_SIZE_LINE = 1 << 10
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
    """No connection: nothing listens there, the name is unknown, or nobody takes the connection in time."""


class BrokenAnswerError(InputError):
    """A connection that ended, fell silent or spoke something else before its answer was whole."""


@dataclass(kw_only=True, slots=True)
class Reply:
    """An answer, or as much of it as arrived.

    Attributes:
        sent_s: when the request was handed to an established connection, on `time.monotonic`'s clock.
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
        """Lines of the body with the time at which each was whole; the last needs no line end where the body is whole.

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


class _Receiver(asyncio.Protocol):
    """Stamps and unframes one answer as it arrives."""

    def __init__(self, most_bytes: int) -> None:
        self.reply = Reply(sent_s=time.monotonic())
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.last_s = self.reply.sent_s
        self._room = most_bytes
        self._head: bytes | None = b""  # None once it is whole
        self._left: int | None = None  # bytes left of the body, or of a chunk and its line end; None: until the end
        self._chunked = False
        self._size_line = b""

    def data_received(self, data: bytes) -> None:
        self.last_s = time.monotonic()
        try:
            if self._head is None:
                self._receive(data)
            else:
                self._receive_head(self._head + data)
        except (ValueError, IndexError):
            self._end("does not speak HTTP")

    def connection_lost(self, error: Exception | None) -> None:
        whole = self._head is None and self._left is None and not self._chunked and error is None
        self._end(None if whole else "the connection ended in the middle of the answer")

    def _receive_head(self, head: bytes) -> None:
        at = head.find(b"\r\n\r\n")
        if at < 0:
            self._head = head
            if len(head) > _MOST_HEAD_BYTES or not b"HTTP/1.".startswith(head[:7]):
                raise ValueError
            return
        first, *lines = head[:at].split(b"\r\n")
        version, status, *_ = first.split(b" ", 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self.reply.status = int(status)
        self.reply.kind = fields.get(b"content-type", b"").partition(b";")[0].decode("latin-1").lower()
        self._chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
        stated = fields.get(b"content-length")
        self._left = 0 if self._chunked else None if stated is None else int(stated)
        if (self._left or 0) < 0:
            raise ValueError
        self._head = None
        if self._left == 0 and not self._chunked:
            self._end(None)
        elif len(head) > at + 4:
            self._receive(head[at + 4 :])

    def _receive(self, data: bytes) -> None:
        if self._chunked:
            self._receive_chunks(self._size_line + data)
        elif self._left is None:
            self._keep(data)
        else:
            self._keep(data[: self._left])
            self._left = max(self._left - len(data), 0)
            if not self._left:
                self._end(None)

    def _receive_chunks(self, data: bytes) -> None:
        self._size_line, at, left = b"", 0, self._left or 0
        while at < len(data):
            if left:  # the last two bytes are the chunk's line end
                taken = min(left, len(data) - at)
                self._keep(data[at : at + min(taken, max(left - 2, 0))])
                at, left = at + taken, left - taken
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._size_line = data[at:]
                if len(self._size_line) > _MOST_SIZE_LINE:
                    raise ValueError
                break
            left = int(data[at:end].partition(b";")[0], 16) + 2
            at = end + 2
            if left == 2:
                self._end(None)
                return
            if left < 2:
                raise ValueError
        self._left = left

    def _keep(self, data: bytes) -> None:
        self._room -= max(len(data), _PIECE_BYTES)
        if self._room < 0:
            self._end("the answer is larger than is read")
        elif data and not self.ended.done():
            self.reply.pieces.append((self.last_s, data))

    def _end(self, error: str | None) -> None:
        if not self.ended.done():
            self.reply.error = error
            self.ended.set_result(None)


async def exchange(
    address: Address, path: str, body: object = None, *, patience: Patience | None = None, most_bytes: int = MOST_BYTES
) -> Reply:
    """Send one request and receive its answer.

    Args:
        address: the server.
        path: below the address, from its slash.
        body: JSON value to post; None asks by GET.
        patience: None is the usual.
        most_bytes: of the answer's body.

    Returns:
        What arrived; where the answer broke off, fell silent or grew too large, its `error` says so.

    Raises:
        UnreachableError: no connection.
    """
    patience = patience or Patience()
    loop = asyncio.get_running_loop()
    secured = ssl.create_default_context() if address.scheme == "https" else None
    try:
        async with asyncio.timeout(patience.connect_s):
            transport, receiver = await loop.create_connection(
                lambda: _Receiver(most_bytes), address.host, address.port, ssl=secured
            )
    except TimeoutError:
        raise UnreachableError(
            f"does not take a connection within {patience.connect_s:g} s", key=str(address)
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise UnreachableError(f"cannot be reached ({reason})", key=str(address)) from None
    try:
        receiver.reply.sent_s = receiver.last_s = time.monotonic()
        transport.write(_request(address, path, body))
        while not receiver.ended.done():
            left_s = receiver.last_s + patience.silence_s - time.monotonic()
            if left_s <= 0:
                receiver.reply.error = f"the server was silent for {patience.silence_s:g} s"
                break
            await asyncio.wait([receiver.ended], timeout=left_s)
    finally:
        transport.abort()
    return receiver.reply


def _request(address: Address, path: str, body: object) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = [
        f"{'GET' if body is None else 'POST'} {address.prefix}{path} HTTP/1.1", f"Host: {address.authority}",
        "User-Agent: rooftree", "Accept: */*", "Accept-Encoding: identity", "Connection: close",
    ]  # fmt: skip
    if address.api_key:
        head.append(f"Authorization: Bearer {address.api_key}")
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + content


def printable(text: str, most: int) -> str:
    """The beginning of a server's text as one line that a terminal shows and does not obey."""
    return "".join(each if each.isprintable() else " " for each in text[:most]).strip()


async def fetch_text(
    address: Address, path: str, body: object = None, *, patience: Patience | None = None
) -> str | None:
    """The text that a server has under a path, or answers to a JSON value; None where it refuses (status >= 400).

    Raises:
        UnreachableError: no connection.
        BrokenAnswerError: an answer that is not whole, a redirect, which is not followed, or a key that is asked for.
    """
    reply = await exchange(address, path, body, patience=patience)
    if reply.error is not None:
        raise BrokenAnswerError(reply.error, key=f"{address}{path}")
    if 300 <= reply.status < 400:
        raise BrokenAnswerError("redirects elsewhere, which is not followed", key=f"{address}{path}")
    if reply.status in (401, 403):
        raise BrokenAnswerError(f"asks for a key (HTTP {reply.status}): see --key-env", key=f"{address}{path}")
    return None if reply.status >= 400 else reply.body.decode("utf-8", errors="replace")


async def fetch_object(
    address: Address, path: str, body: object = None, *, patience: Patience | None = None
) -> Mapping[str, Any] | None:
    """The JSON object that a server has under a path, or answers to a JSON value; None where it refuses.

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
            "must answer a JSON object", key=f"{address}{path}", value=printable(text, _LONGEST_SHOWN)
        )
    return value
