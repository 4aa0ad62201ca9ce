"""How does a file that could be read become one that perhaps cannot?

Mutations of text, JSON, bytes and tables by a seeded generator: values replaced by hostile ones,
parts dropped, doubled, swapped and joined with other files, numbers blown up, bytes flipped, ends
cut off.
"""

import copy
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq

HOSTILE = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    0.5,
    -0.5,
    1e308,
    -1e308,
    1e-320,
    1e999,
    float("nan"),
    2**31,
    2**31 - 1,
    2**53,
    2**63,
    -(2**63),
    10**30,
    "",
    " ",
    "x",
    "0",
    "1e400",
    "nan",
    "-inf",
    "é\u2028\ud7ff",
    "\x00",
    "../../etc/passwd",
    "9" * 400,
    "[" * 400,
    [],
    {},
    [[]],
    [None],
    [0] * 40,
    [-1],
    {"": {}},
    [[0, 1], [2]],
    {"a": [1e999]},
]
NUMBERS = [
    "0",
    "-1",
    "1",
    "nan",
    "inf",
    "1e400",
    "99999999999999999999",
    "0.5",
    "1.0000001",
    "2147483648",
    "",
    "1_0",
    "٣",
    "1e-400",
    "00007",
]
WORDS = [
    "\n",
    "\r",
    "\x00",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "'",
    "&a ",
    "*a",
    "!!python/object:os.system ",
    "- ",
    "#",
    "\t",
    "=",
    "PAR1",
    "\ufeff",
]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def mutated_json(generator, document, others=()):
    """A JSON value with one to four places changed."""
    document = copy.deepcopy(document)
    for _ in range(generator.choice((1, 1, 1, 2, 2, 4))):
        document = _changed(generator, document, others)
    return document


def _changed(generator, document, others):
    holder, key = _place(generator, document)
    if holder is None:
        return generator.choice(HOSTILE)
    value = holder[key]
    match generator.randrange(9):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(generator.choice(HOSTILE))
        case 3:
            del holder[key]
        case 4 if isinstance(value, int | float) and not isinstance(value, bool):
            holder[key] = generator.choice(
                (
                    value * -1,
                    value * 1000,
                    value + 1,
                    value / 3,
                    str(value),
                    [value],
                    value * 10**12,
                )
            )
        case 5 if isinstance(holder, dict):
            holder[generator.choice(("", "x", str(key).upper(), f"{key} ", f"{key}s"))] = (
                holder.pop(key)
            )
        case 6 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[: generator.randrange(1, 30)]))
        case 7 if isinstance(value, str) and value:
            holder[key] = mutated_text(generator, value)
        case 8 if others:
            holder[key] = copy.deepcopy(generator.choice(others))
        case _:
            nested = copy.deepcopy(value)
            for _ in range(generator.choice((1, 2, 60))):
                nested = [nested] if generator.random() < 0.5 else {"x": nested}
            holder[key] = nested
    return document


def _place(generator, document):
    """A container inside a document and a key of it; deep places are as likely as shallow ones."""
    places = []
    waiting = [document]
    while waiting and len(places) < 4000:
        node = waiting.pop()
        keys = (
            list(node)
            if isinstance(node, dict)
            else range(len(node))
            if isinstance(node, list)
            else ()
        )
        for key in keys:
            places.append((node, key))
            waiting.append(node[key])
    return generator.choice(places) if places else (None, None)


def mutated_text(generator, text, others=("",)):
    """A text with one to four places changed."""
    for _ in range(generator.choice((1, 1, 1, 2, 2, 4))):
        text = _rewritten(generator, text, others)
    return text


def _rewritten(generator, text, others):
    return generator.choice(
        (_number, _number, _number, _rows, _rows, _cut, _inserted, _joined, _renamed)
    )(generator, text, others)


def _number(generator, text, others):
    found = list(NUMBER.finditer(text))
    if not found:
        return text + generator.choice(NUMBERS)
    match = generator.choice(found)
    return text[: match.start()] + generator.choice(NUMBERS) + text[match.end() :]


def _rows(generator, text, others):
    rows = text.split("\n")
    at = generator.randrange(len(rows))
    rows[at : at + 1] = generator.choice(
        ([], [rows[at]] * 3, [rows[at]] * 40, [generator.choice(rows)])
    )
    return "\n".join(rows)


def _cut(generator, text, others):
    at = generator.randrange(len(text) + 1)
    return text[:at] if generator.random() < 0.5 else text[at:]


def _inserted(generator, text, others):
    at = generator.randrange(len(text) + 1)
    return text[:at] + generator.choice(WORDS) * generator.choice((1, 1, 2, 300)) + text[at:]


def _joined(generator, text, others):
    other = generator.choice(others)
    first, last = sorted(generator.randrange(len(other) + 1) for _ in range(2))
    at = generator.randrange(len(text) + 1)
    return text[:at] + other[first:last] + text[at:]


def _renamed(generator, text, others):
    words = re.findall(r"[A-Za-z_]\w*", text)
    return text.replace(generator.choice(words), generator.choice(words), 1) if words else text


def mutated_bytes(generator, content):
    """Bytes with a few flipped, dropped, doubled, or the end cut off."""
    made = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 4, 16))):
        if not made:
            break
        # the footer at the end says how everything before it is read
        at = (
            generator.randrange(len(made))
            if generator.random() < 0.5
            else max(0, len(made) - 1 - generator.randrange(400))
        )
        match generator.randrange(5):
            case 0 | 1:
                made[at] = generator.randrange(256)
            case 2:
                del made[at : at + generator.choice((1, 4, 40))]
            case 3:
                made[at:at] = made[at : at + generator.choice((1, 8, 100))]
            case _:
                del made[generator.randrange(len(made)) :]
    return bytes(made)


def mutated_table(generator, table):
    """A Parquet table with a column changed, or with its header rewritten."""
    names = table.column_names
    header = dict(table.schema.metadata or {})
    if header and generator.random() < 0.5:
        key = generator.choice(list(header))
        try:
            document = json.loads(header[key])
        except ValueError:
            document = {}
        header[key] = json.dumps(mutated_json(generator, document)).encode()
        return _parquet(table.replace_schema_metadata(header))
    at = generator.randrange(len(names))
    column = table.column(at).to_pylist()
    match generator.randrange(4):
        case 0:
            table = table.drop_columns([names[at]])
        case 1:
            values = [generator.choice((0, -1, 7, 2**31 - 1, 99)) for _ in column]
            table = table.set_column(at, names[at], pa.array(values))
        case 2:
            values = [[generator.choice((0, -1, 3, 300))] * generator.randrange(4) for _ in column]
            table = table.set_column(at, names[at], pa.array(values, pa.list_(pa.int64())))
        case _:
            values = [generator.choice((None, "x", "é", "")) for _ in column]
            table = table.set_column(at, names[at], pa.array(values, pa.string()))
    return _parquet(table)


def _parquet(table):
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()
