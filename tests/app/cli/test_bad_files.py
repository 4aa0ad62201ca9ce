"""Bad files end in exit code 2, and one line that names the file, the key, the rule and the
value."""

import pytest

PREDICT = "predict --model llama-3.2-1b --trace {ranks} --out {out}"
STATED = "predict --model llama-3.2-1b --method n-gram --out {out}"
OPTIMIZE = "optimize --trace {ranks} --tree-nodes 4 --out {out}"
EXPORT = "export vllm --model llama-3.2-1b --method n-gram --draft-tokens 3 --out {out}"
IMPORT = "traces import {position} --format position-json -o {out}"
TREE = "tree --acceptance {vector} --out {out}"

CONFIG_FIELDS = [
    ("missing", "{missing}: hidden_size: is missing"),
    ("negative", "{negative}: num_hidden_layers: must be a whole number from 1 to 10000, got -3"),
    ("text", "{text}: hidden_size: must be a whole number from 1 to 10000000, got 'wide'"),
    ("huge", "{huge}: num_hidden_layers: must be"),
    ("heads", "{heads}: num_key_value_heads: must divide num_attention_heads (7), got 8"),
    ("family", "{family}: model_type: unknown model type 'lama'; nearest: llama"),
    ("list", "{list}: must hold a JSON object"),
    ("broken", "{broken}: is not valid JSON"),
    ("empty", "{empty}: is not valid JSON"),
    ("ranks", "{ranks}: is not valid JSON"),
    ("folder", "config.json: there is no such file"),
]
NOT_TRACES = [
    ("junk", "{junk}: is no whole Parquet file"),
    ("bare", "{bare}: is no whole Parquet file"),
    ("truncated", "{truncated}: is no whole Parquet file"),
    ("beheaded", "{beheaded}: "),
    ("damaged", "{damaged}: "),
    ("foreign", "{foreign}: is Parquet but no rooftree trace"),
    ("broken", "{broken}: must be JSON"),
    ("object", "{object}: shows nothing of any format"),
    ("none", "{none}: there is no such file"),
    ("parquet-folder", "{parquet-folder}: must be a regular file"),
    ("folder", "{folder}: must be a regular file"),
    ("device-short", "{device-short}: shows nothing of any format"),
]
LEVELS = [
    (
        "replay {summary} --verifier match --out {out}",
        (
            "{summary}: level: replaying trees, stop rules and verifiers needs a trace of level 1"
            " (lengths)"
        ),
        "got '0 (summary)'",
    ),
    (
        "tree --acceptance {lookup} --out {out}",
        "{lookup}: level: building a tree needs",
        "got '1 (lengths)'",
    ),
    (
        "replay {lookup} --tree {tree-one} --out {out}",
        "{lookup}: level: replaying a tree",
        "got '1 (lengths)'",
    ),
    (
        "predict --model gpt2 --trace {lookup} --tree {tree-one} --out {out}",
        "{lookup}: level: ",
        "got '1 (lengths)'",
    ),
    (
        "optimize --trace {unnamed} --out {out}",
        "{unnamed}: method: the trace names no method; pass --method",
    ),
]
BAD_TREES = [
    ("tree-broken", "{tree-broken}: must be JSON"),
    ("tree-short", "{tree-short}: ranks: must have 2 entries, as parents, got 1"),
    (
        "tree-order",
        "{tree-order}: parents: node 1 must come after its parent (topological order), got 5",
    ),
    ("tree-twice", "{tree-twice}: ranks: two nodes share parent and rank"),
    (
        "tree-wide",
        (
            "{tree-wide}: ranks: only 8 candidates per position are recorded, so ranks must lie"
            " below that, got 99"
        ),
    ),
    ("tree-text", "{tree-text}: parents: must be a list of whole numbers, got 'x'"),
    ("tree-number", "{tree-number}: a tree is an object"),
    ("tree-gap", "{tree-gap}: paths: the prefix of every path must be listed too, got (0, 0, 0)"),
    ("tree-many", "{tree-many}: trees: must hold exactly one tree, got 2"),
    ("ranks", "{ranks}: must be JSON"),
    ("folder", "{folder}: must be a regular file"),
    ("none", "{none}: there is no such file"),
]
FILES = [
    *(
        (
            f"tree --acceptance {{vector-{name}}} --out {{out}}",
            f"{{vector-{name}}}: acceptance{rule}",
        )
        for name, rule in (
            ("empty", ": must be a list of 1..4096 numbers"),
            ("negative", "[1]: must be a probability in 0..1, got '-1'"),
            ("sum", ": siblings exclude each other"),
            ("text", "[0]: must be a probability"),
            ("ragged", "[1]: must be a"),
            ("nan", "[0]: must be a probability"),
            ("mixed", "[1]: must be a list"),
            ("true", "[0]: must be a prob"),
        )
    ),
    *(
        (
            f"traces import {{position-{name}}} --format position-json -o {{out}}",
            f"{{position-{name}}}: requests{rule}",
        )
        for name, rule in (
            ("none", ": must hold at least one"),
            ("zero", "[0].emitted[0]: "),
            ("drafted", "[0].drafted: must be as long as emitted"),
            ("number", ": must be a list"),
        )
    ),
    (
        "traces import {position-huge} --format position-json -o {out}",
        "requests[0].emitted[0]: must be",
        "got 99999",
    ),
    ("traces import {none} --format position-json -o {out}", "{none}: there is no such file"),
    ("traces import {folder} --format position-json -o {out}", "{folder}: must be a regular file"),
    ("traces import {prose} --format vllm-log -o {out}", "{prose}: "),
    (
        "predict --model gpt2 --acceptance 0.5 --method n-gram --out {out} --device {device-short}",
        "{device-short}: ",
    ),
    (
        (
            "predict --model gpt2 --acceptance 0.5 --method n-gram --out {out} --device"
            " {device-broken}"
        ),
        "{device-broken}: ",
    ),
    ("tree --acceptance {none} --out {out}", "{none}: "),
    ("tree --acceptance {folder} --out {out}", "{folder}: "),
]
NOT_ANSWERS = [
    (
        "answer-schema",
        "{answer-schema}: schema: must be an answer of `rooftree optimize` with schema 1 to 4",
    ),
    ("answer-number", "{answer-number}: choices: must be a list, as `rooftree optimize` writes it"),
    ("answer-old", "{answer-old}: configuration: is absent: the answer is of an older version"),
    ("answer-schedules", "{answer-schedules}: schedule: must be a list"),
    ("answer-deployment", "{answer-deployment}: deployment: must be an object of keys and values"),
    ("answer-method", "{answer-method}: method: must be a text"),
    ("answer-unknown", "{answer-unknown}: unknown method 'n-grim'; nearest: n-gram"),
    ("answer-tree", "{answer-tree}: a tree is an object"),
    ("answer-text", "{answer-text}: draft_tokens: must be a whole number, got 'x'"),
    ("answer-key", "{answer-key}: draft_token: is no key of it; nearest: draft_tokens"),
    ("object", "{object}: schema: a configuration is an object with schema 1"),
    ("broken", "{broken}: must be a readable JSON file"),
    ("folder", "{folder}: must be a regular file"),
    ("none", "{none}: there is no such file"),
    ("ranks", "{ranks}: must be a readable JSON file"),
]


@pytest.mark.parametrize(("name", "fragment"), CONFIG_FIELDS)
def test_model_configurations(refused, name, fragment):
    line = f"predict --model {{{name}}} --method n-gram --acceptance 0.5 --out {{out}}"
    refused(line, 2, fragment)


@pytest.mark.parametrize(
    "line",
    [
        "replay {{{}}} --out {{out}}",
        "optimize --trace {{{}}} --out {{out}}",
        "traces inspect {{{}}} --out {{out}}",
        "predict --model gpt2 --trace {{{}}} --out {{out}}",
        "export vllm --from {{answer}} --trace {{{}}} --out {{out}}",
    ],
)
@pytest.mark.parametrize(("name", "fragment"), NOT_TRACES)
def test_files_that_are_no_traces(refused, line, name, fragment):
    refused(line.format(name), 2, fragment)


@pytest.mark.parametrize(("line", "fragments"), [(line, rest) for line, *rest in LEVELS])
def test_traces_of_too_low_a_level(refused, line, fragments):
    refused(line, 2, *fragments)


@pytest.mark.parametrize("line", ["replay {ranks} --out {out} --tree", f"{PREDICT} --tree"])
@pytest.mark.parametrize(("name", "fragment"), BAD_TREES)
def test_trees(refused, line, name, fragment):
    refused(f"{line} {{{name}}}", 2, fragment)


@pytest.mark.parametrize(("name", "fragment"), NOT_ANSWERS)
def test_files_that_are_no_answers(refused, name, fragment):
    refused(f"export vllm --from {{{name}}} --out {{out}}", 2, fragment)


@pytest.mark.parametrize(
    "line",
    [
        PREDICT,
        STATED + " --acceptance 0.5",
        OPTIMIZE,
        EXPORT,
        TREE,
        IMPORT,
        "replay {ranks} --out {out}",
        "traces inspect {ranks} --out {out}",
        "devices --out {out}",
        "models --out {out}",
        "methods --out {out}",
    ],
)
@pytest.mark.parametrize("where", ["below a file", "too long", "a pipe"])
def test_places_that_cannot_be_written(ended, place, tmp_path, line, where):
    target = {
        "below a file": place["prose"] / "x",
        "too long": tmp_path / ("y" * 300),
        "a pipe": place["pipe"],
    }[where]
    done = ended(line, out=target)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert str(place["prose"] if where == "below a file" else target)[:80] in done.err
    assert place["prose"].read_text() == "hello" and place["pipe"].is_fifo()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("line", "fragments"), [(line, rest) for line, *rest in FILES])
def test_vectors_positions_and_devices(refused, line, fragments):
    refused(line, 2, *fragments)
