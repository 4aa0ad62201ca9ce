"""Questions to a server of llama.cpp over plain HTTP, for tests of what is not our client."""

import json
import urllib.request


def post(running, path, **body):
    request = urllib.request.Request(
        running.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def get(running, path):
    with urllib.request.urlopen(running.url + path) as answer:
        return answer.read().decode()


def chat_ids(running, text):
    """Token ids of a question in the model's own form."""
    formed = post(running, "/apply-template", messages=[{"role": "user", "content": text}])[
        "prompt"
    ]
    return post(running, "/tokenize", content=formed, add_special=True, parse_special=True)[
        "tokens"
    ]


def greedy(running, prompt, count, **further):
    return post(
        running,
        "/completion",
        prompt=prompt,
        n_predict=count,
        temperature=0,
        return_tokens=True,
        **further,
    )
