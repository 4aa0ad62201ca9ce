"""Files that are not what they should be, and how a refusal must look.

A case is a line of words: those in braces name files of `place`, `{out}` is a folder that must stay
untouched, `~` stands for a blank and `''` for an empty word.
"""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
CONFIGS = {
    "missing": {key: value for key, value in CONFIG.items() if key != "hidden_size"},
    "negative": CONFIG | {"num_hidden_layers": -3},
    "text": CONFIG | {"hidden_size": "wide"},
    "huge": CONFIG | {"num_hidden_layers": 10**12},
    "heads": CONFIG | {"num_attention_heads": 7},
    "family": CONFIG | {"model_type": "lama"},
    "list": [1],
}
TREES = {
    "tree-broken": "{",
    "tree-short": '{"parents":[-1,0],"ranks":[0]}',
    "tree-order": '{"parents":[-1,5],"ranks":[0,0]}',
    "tree-twice": '{"parents":[-1,0,0],"ranks":[0,0,0]}',
    "tree-wide": '{"parents":[-1,0],"ranks":[0,99]}',
    "tree-text": '{"parents":"x","ranks":[0]}',
    "tree-number": "3",
    "tree-gap": "[[0],[0,0,0]]",
    "tree-one": "[[0]]",
    "tree-many": '{"trees":[{"parents":[-1],"ranks":[0]},{"parents":[-1],"ranks":[0]}]}',
    "tree-branch": "[[0],[1]]",
}
VECTORS = {
    "vector-empty": "[]",
    "vector-negative": "[0.6,-1]",
    "vector-sum": "[0.9,0.9]",
    "vector-text": '["a"]',
    "vector-nan": "[NaN]",
    "vector-ragged": "[[0.5],[]]",
    "vector-mixed": "[[0.5],0.2]",
    "vector-true": "[true]",
}
POSITIONS = {
    "position": '{"requests":[{"prompt_tokens":3,"emitted":[1,2]}]}',
    "position-none": '{"requests":[]}',
    "position-zero": '{"requests":[{"emitted":[0]}]}',
    "position-huge": '{"requests":[{"emitted":[99999]}]}',
    "position-drafted": '{"requests":[{"emitted":[1],"drafted":[1,2]}]}',
    "position-number": '{"requests":5}',
}
WHERE = {"model": "llama-3.2-1b"}
CHAIN = {"schema": 1, "deployment": WHERE, "method": "n-gram", "draft_tokens": 3}
CHOICE = {
    "batch": 1,
    "context": 8,
    "method": "n-gram",
    "draft_tokens": 3,
    "tree": None,
    "configuration": CHAIN,
}
SCHEDULE = {"method": "n-gram", "context": 8, "configuration": CHAIN | {"schedule": [[1, 4, 3]]}}
ANSWER = {"schema": 1, "inputs": WHERE | {"tp": 1}, "choices": [CHOICE], "schedules": [SCHEDULE]}


def _answer_of(**wrong):
    return ANSWER | {"schedules": [], "choices": [CHOICE | {"configuration": CHAIN | wrong}]}


ANSWERS = {
    "answer": ANSWER,
    "answer-schema": ANSWER | {"schema": 9},
    "answer-number": ANSWER | {"choices": [1]},
    "answer-old": ANSWER
    | {"choices": [{"batch": 1, "context": 8, "method": "n-gram", "draft_tokens": 3}]},
    "answer-schedules": ANSWER
    | {"schedules": [SCHEDULE | {"configuration": CHAIN | {"schedule": [[1, 2]]}}]},
    "answer-deployment": _answer_of(deployment=None),
    "answer-method": _answer_of(method=["n-gram"]),
    "answer-unknown": _answer_of(method="n-grim"),
    "answer-tree": _answer_of(shape="x"),
    "answer-text": _answer_of(draft_tokens="x"),
    "answer-key": _answer_of(draft_token=3),
}
DEVICES = {"device-short": 'title = "x"\n', "device-broken": "= 1\n"}


@pytest.fixture(scope="module")
def place(files, tmp_path_factory):
    """A folder of files that are not what they should be; name to path."""
    folder = tmp_path_factory.mktemp("bad")
    named = {
        name: getattr(files, name)
        for name in ("ranks", "lookup", "undrafted", "unnamed", "summary", "vector")
    }
    texts = (
        TREES
        | VECTORS
        | POSITIONS
        | {"broken": "{", "object": '{"a":1}', "prose": "hello", "empty": ""}
    )
    texts |= {name: json.dumps(value) for name, value in (*CONFIGS.items(), *ANSWERS.items())}
    for name, text in texts.items():
        named[name] = folder / f"{name}.json"
        named[name].write_text(text)
    for name, text in DEVICES.items():
        named[name] = folder / f"{name}.toml"
        named[name].write_text(text)
    whole = files.ranks.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0xFF
    contents = {
        "truncated": whole[:-200],
        "beheaded": whole[100:],
        "damaged": damaged,
        "junk": b"PAR1" * 9,
        "bare": b"",
    }
    for name, content in contents.items():
        named[name] = folder / f"{name}.parquet"
        named[name].write_bytes(content)
    named["foreign"] = folder / "foreign.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), named["foreign"])
    named["folder"] = folder
    named["parquet-folder"] = folder / "folder.parquet"
    named["parquet-folder"].mkdir()
    named["none"] = folder / "none" / "such.parquet"
    named["pipe"] = folder / "pipe.parquet"
    os.mkfifo(named["pipe"])
    return named


@pytest.fixture
def ended(rooftree, place, tmp_path):
    """Run a line; the untouched folder is `out` below the test's own."""

    def run(line, out=None):
        words = line.format_map({**place, "out": out or tmp_path / "out"}).split(" ")
        return rooftree(*("" if word == "''" else word.replace("~", " ") for word in words))

    return run


@pytest.fixture
def refused(ended, place, tmp_path):
    """Run a line that must fail: a line on standard error with every fragment, no answer, no file.

    A file with several mistakes has a line for each, indented beneath the first.
    """

    def check(line, code, *fragments):
        done = ended(line)
        assert (done.code, done.out) == (code, ""), done.err
        first, *others = done.err.splitlines()
        assert first.startswith("rooftree: ")
        assert all(other.startswith("  ") for other in others)
        assert f"{len(others)} things are wrong" in first or not others
        for fragment in fragments:
            assert fragment.format_map(place) in done.err
        assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
        return done.err

    return check
