"""A server that answers like an engine, or fails in one way: in a thread of a test, or as a process
of its own.

Every token's text is the clock at which it was written, so that a client's times can be held
against it.
"""

import asyncio
import contextlib
import json
import sys
import threading
import time

METRICS = "# TYPE stub_requests_total counter\nstub_requests_total 1\n"
OWNERS = {
    "llama.cpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "openai": "me",
}


class Stub:
    """What the server does.

    Args:
        kind: whose endpoints and events.
        interval_s: between two tokens.
        first_s: before the first one.
        fault: how completions fail from request `fails_from` on; empty: they do not.
        scrapes: texts of `/metrics` in turn, the last one again and again; none: it has no
            counters.
        tokenizes: whether it has `/tokenize`.
        at_once: tokens of one event.
        gathers: requests that must have come before any of them is answered.
    """

    def __init__(
        self,
        kind="llama.cpp",
        *,
        interval_s=0.0,
        first_s=0.0,
        fault="",
        fails_from=0,
        scrapes=(METRICS,),
        tokenizes=True,
        at_once=1,
        gathers=1,
        model="stub",
    ):
        self.kind, self.interval_s, self.first_s, self.fault, self.fails_from = (
            kind,
            interval_s,
            first_s,
            fault,
            fails_from,
        )
        self.scrapes, self.tokenizes, self.at_once, self.model = (
            list(scrapes),
            tokenizes,
            at_once,
            model,
        )
        self.bodies, self.heads, self.most_at_once, self._under_way = [], [], 0, 0
        self.lost, self.gathers, self.gathered = asyncio.Event(), gathers, asyncio.Event()

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            method, path, _ = head.split(" ", 2)
            sizes = [
                line.partition(":")[2]
                for line in head.splitlines()
                if line.lower().startswith("content-length")
            ]
            body = json.loads(await reader.readexactly(int(sizes[0]))) if sizes else None
            await self.answer(method, path, body, writer)
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()

    async def answer(self, method, path, body, writer):
        if path == "/v1/models":
            send(
                writer,
                json.dumps(
                    {
                        "data": [
                            {"id": self.model, "owned_by": OWNERS[self.kind], "max_model_len": 4096}
                        ]
                    }
                ),
            )
        elif path == "/props" and self.kind == "llama.cpp":
            send(
                writer,
                json.dumps({"total_slots": 2, "default_generation_settings": {"n_ctx": 4096}}),
            )
        elif path in ("/metrics", "/prometheus/metrics") and self.scrapes:
            send(
                writer,
                self.scrapes.pop(0) if len(self.scrapes) > 1 else self.scrapes[0],
                kind="text/plain",
            )
        elif path == "/tokenize" and self.tokenizes:
            send(writer, json.dumps({"tokens": list(range(500, 700))}))
        elif path in ("/completion", "/v1/completions"):
            self.bodies.append(body)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            fault = self.fault if len(self.bodies) > self.fails_from else ""
            await (
                FAULTS[fault](self, writer) if fault in FAULTS else self.stream(body, writer, fault)
            )
            self._under_way -= 1
        else:
            send(
                writer,
                json.dumps({"error": {"message": "no such endpoint"}}),
                status="404 Not Found",
            )
        await writer.drain()

    async def stream(self, body, writer, fault):
        start(writer, "text/event-stream")
        if len(self.bodies) >= self.gathers:
            self.gathered.set()
        await self.gathered.wait()
        count = body.get("n_predict") or body.get("max_tokens")
        await asyncio.sleep(self.first_s)
        for at in range(0, count, self.at_once):
            if at and self.interval_s:
                await asyncio.sleep(self.interval_s)
            if at >= count // 2 and fault:
                if fault == "silent":
                    await self.lost.wait()
                if fault == "dies":
                    self.lost.set()
                if fault == "ends":
                    writer.write(b"0\r\n\r\n")
                if fault == "says":
                    event(writer, {"error": {"message": "out of memory"}})
                return
            event(writer, self.tokens(range(at, min(at + self.at_once, count))))
        for last in self.last(body, count):
            event(writer, last)
        writer.write(b"0\r\n\r\n")

    def tokens(self, numbers):
        text = "".join(f"{time.monotonic():.6f} " for _ in numbers)
        if self.kind == "llama.cpp":
            return {"content": text, "tokens": list(numbers), "stop": False}
        return {"choices": [{"text": text, "finish_reason": None}]}

    def last(self, body, count):
        prompt = len(body["prompt"])
        if self.kind == "llama.cpp":
            timings = {
                "prompt_ms": 1.0,
                "predicted_ms": 2.0,
                "cache_n": 0,
                "draft_n": count,
                "draft_n_accepted": count // 2,
            }
            return [
                {
                    "content": "",
                    "tokens": [],
                    "stop": True,
                    "stop_type": "limit",
                    "tokens_predicted": count,
                    "tokens_evaluated": prompt,
                    "timings": timings,
                }
            ]
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": count,
            "prompt_tokens_details": {"cached_tokens": 1},
        }
        return [
            {"choices": [{"text": "", "finish_reason": "length"}]},
            {"choices": [], "usage": usage},
        ]


def start(writer, kind, status="200 OK"):
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )


def event(writer, value):
    data = f"data: {json.dumps(value)}\n\n".encode()
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def send(writer, text, *, kind="application/json", status="200 OK", more=""):
    data = text.encode()
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}\r\n".encode()
        + data
    )


async def _html(stub, writer):
    send(writer, "<html>gateway</html>", kind="text/html")


async def _refuses(stub, writer):
    send(writer, json.dumps({"error": {"message": "no room"}}), status="503 Service Unavailable")


async def _redirects(stub, writer):
    send(writer, "", status="302 Found", more="Location: http://127.0.0.1:9/\r\n")


async def _huge(stub, writer):
    start(writer, "text/event-stream")
    while not writer.transport.is_closing():
        writer.write(b"%x\r\n%s\r\n" % (1 << 16, b"x" * (1 << 16)))
        await writer.drain()


async def _garbage(stub, writer):
    writer.write(b"\x00\x01\x02 what?\r\n" * 8)


async def _no_chunks(stub, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot-hex\r\n")


FAULTS = {
    "html": _html,
    "refuses": _refuses,
    "redirects": _redirects,
    "huge": _huge,
    "garbage": _garbage,
    "no-chunks": _no_chunks,
}


async def _listen(stub, tell):
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, backlog=1024)
    tell(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await stub.lost.wait()
    server.close()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0.01)


@contextlib.contextmanager
def serving(kind="llama.cpp", *, of=Stub, **options):
    """A stub in a thread: its URL, and itself."""
    begun, ready, stub = [], threading.Event(), of(kind, **options)

    def tell(url):
        begun.extend([url, asyncio.get_running_loop()])
        ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(_listen(stub, tell)), daemon=True)
    thread.start()
    assert ready.wait(300)
    try:
        yield begun[0], stub
    finally:
        with contextlib.suppress(RuntimeError):  # it died, as it was asked to
            begun[1].call_soon_threadsafe(stub.lost.set)
        thread.join(10)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    asyncio.run(_listen(Stub(**options), lambda url: print(url, flush=True)))
