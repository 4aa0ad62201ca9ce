"""Which passes does the engine compute? Run as a script: its own log of batches says so.

    python noted_passes.py MODEL SLOTS '[[prompt tokens, output tokens], …]'

The first request is sent alone; the others while it is computed. Prints a JSON list of passes, each
as sequences and tokens of each.
"""

import ctypes
import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

PASS = re.compile(
    rb"ubatch_print:\s+n_seq_tokens = (\d+)[^\n]*\n[^\n]*ubatch_print:\s+n_seqs\s+= (\d+)"
)


def ask(url, number, prompt_tokens, output_tokens):
    prompt = [1000 + (37 * number + 11 * i) % 3000 for i in range(prompt_tokens)]
    body = {
        "prompt": prompt,
        "n_predict": output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "cache_prompt": False,
    }
    request = urllib.request.Request(
        url + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert json.loads(answer.read())["timings"]["predicted_n"] == output_tokens


def main(model, slots, requests):
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path, p.n_parallel, p.n_ctx, p.port, p.hostnames = (
        model,
        slots,
        1024 * slots,
        0,
        ["127.0.0.1"],
    )
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.verbosity = 10
    server = xllamacpp.Server(p)
    start = os.lseek(2, 0, os.SEEK_CUR)
    with ThreadPoolExecutor(len(requests)) as pool:
        asked = []
        for number, request in enumerate(requests):
            asked.append(pool.submit(ask, server.listening_address, number, *request))
            time.sleep(0.5 if number == 0 else 0.02)
        for each in asked:
            each.result()
    return start


if __name__ == "__main__":
    os.environ["LLAMA_BATCH_DEBUG"] = "1"
    shown = os.dup(1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        start = main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
        ctypes.CDLL(None).fflush(None)
        log.seek(start)
        text = log.read()
    added = text.split(b"ubatch_add: added ubatch to split")[1:]
    passes = [[int(each) for each in reversed(PASS.search(part).groups())] for part in added]
    os.write(shown, json.dumps(passes).encode())
    os._exit(0)
