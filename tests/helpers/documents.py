"""The text of JSON documents, in all the ways JSON lets one write them.

A document is a value whose numbers are their characters, and one of its many spellings.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.helpers.slow_json import Written

__all__ = ["DOCUMENTS", "spelt"]

CHARACTERS = st.sampled_from(
    'ab01"\\/{}[],: \b\f\n\r\t\x00\x1f\x7f\x80é\u0301e\u2028Å\u212b\ud7ff\ue000\uffff\U00010000\U0001f600'
)
TEXTS = st.text(CHARACTERS, max_size=5) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
# Names that some order treats on its own: array indices and what only looks like one.
NAMES = TEXTS | st.sampled_from(
    [
        "0",
        "1",
        "2",
        "9",
        "10",
        "01",
        "-1",
        "1.5",
        "4294967294",
        "4294967295",
        "4294967296",
        "a",
        "A",
    ]
)
WHOLE = st.integers(-(10**25), 10**25).map(str)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(repr)
FRACTIONS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,6}([eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})",
    fullmatch=True,
)
EDGES = st.sampled_from(
    [
        *("0", "-0", "9007199254740991", "9007199254740993", "-9007199254740993", "1" + "0" * 300),
        *(
            "0.0",
            "-0.0",
            "1.0",
            "1e5",
            "1E5",
            "1e+5",
            "0.1000",
            "0.0001",
            "0.00001",
            "1e-5",
            "1e-6",
        ),
        *("1e-7", "5e-324", "1e15", "1e16", "1e17", "1e20", "1e21", "1e22"),
        "1.7976931348623157e308",
    ]
)
NUMBERS = (WHOLE | FLOATS | FRACTIONS | EDGES).map(Written)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=10,
)


def spelt(value: Any, random: Random) -> str:
    """One spelling of a value: white space, escapes and order by chance, numbers as they are."""
    space = random.choice(["", "", " ", "\n\t", "\r"])
    if isinstance(value, Written):
        text = value.text
    elif isinstance(value, str):
        text = _string(value, random)
    elif isinstance(value, dict):
        names = list(value)
        random.shuffle(names)
        listed = [
            space + _string(name, random) + space + ":" + spelt(value[name], random)
            for name in names
        ]
        text = "{" + (",".join(listed) or space) + "}"
    elif isinstance(value, list):
        text = "[" + (",".join(spelt(item, random) for item in value) or space) + "]"
    else:
        text = json.dumps(value)
    return space + text + random.choice(["", space])


def _string(text: str, random: Random) -> str:
    written = ""
    for character in text:
        forms = [json.dumps(character, ensure_ascii=False)[1:-1], json.dumps(character)[1:-1]]
        if ord(character) < 0x10000:
            forms += [f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"]
        if character == "/":
            forms.append("\\/")
        written += random.choice(forms)
    return '"' + written + '"'


DOCUMENTS = st.builds(
    lambda value, seed: spelt(value, Random(seed)),
    st.dictionaries(NAMES, VALUES, max_size=5),
    st.integers(0, 2**32),
)
