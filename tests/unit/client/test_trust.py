"""Trust files: what is read, what is refused and how, and the way back to text."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.encoding import base64url_encode
from receiptledger.core.note import NoteSigner, VerifierKey
from receiptledger.core.verify import POLICIES, Trust
from receiptledger.trust import TrustError, format_trust, load_trust, parse_trust

if TYPE_CHECKING:
    from pathlib import Path

LOG = NoteSigner.from_seed("example.com/log", bytes(32)).verifier
KEY = base64url_encode(bytes(range(32)))
GOOD = f"""
[[log]]
key = "{LOG}"

[[agent]]
id = "billing"
public_key = "{KEY}"

[policy]
require = ["agent-key", "remembered"]
"""


def test_reads_everything() -> None:
    trust = parse_trust(GOOD)
    assert trust.log_keys == (LOG,)
    assert trust.agent_keys == {"billing": (bytes(range(32)),)}
    assert trust.require == {"agent-key", "remembered"}
    assert trust.remembered is None


def test_a_log_is_enough() -> None:
    trust = parse_trust(f'[[log]]\nkey = "{LOG}"\n')
    assert (trust.agent_keys, trust.require) == ({}, frozenset())


def test_a_second_entry_adds_a_key() -> None:
    other = base64url_encode(bytes(32))
    text = GOOD + "".join(
        f'[[agent]]\nid = "billing"\npublic_key = "{key}"\n' for key in (other, KEY)
    )
    assert parse_trust(text).agent_keys == {"billing": (bytes(range(32)), bytes(32))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[[log]]", "[[logs]]"), r"unknown name 'logs'; did you mean log\?"),
        (("[[log]]", "[log]"), r"written \[\[log\]\]"),
        (("[policy]", "[[policy]]"), r"written \[policy\], in single"),
        (("[policy]", "[polcy]"), r"did you mean policy\?"),
        (("[policy]", "[zzz]"), "known are log, agent, tsa, policy"),
        (("key =", "keys ="), r"\[\[log\]\] 1: unknown name 'keys'; did you mean key\?"),
        ((f'key = "{LOG}"', ""), r"\[\[log\]\] 1: key is missing"),
        ((f'"{LOG}"', '"nonsense"'), r"\[\[log\]\] 1: key is no log key"),
        ((f'"{LOG}"', "7"), r"\[\[log\]\] 1: key is missing, or no text"),
        (('"billing"', '""'), r"\[\[agent\]\] 1: id is missing"),
        (("public_key", "publickey"), r"did you mean public_key\?"),
        ((KEY, KEY + "="), r"\[\[agent\]\] 1: public_key"),
        ((KEY, KEY[:-1]), r"\[\[agent\]\] 1: public_key"),
        (
            ('"agent-key"', '"agent-keys"'),
            r"require: unknown name 'agent-keys'; did you mean agent-key",
        ),
        (('["agent-key", "remembered"]', '"anchor"'), "require is a list of"),
        (('["agent-key", "remembered"]', "[7]"), "require is a list of"),
        (("require", "requires"), r"did you mean require\?"),
        (('require = ["agent-key", "remembered"]', "x ="), "is not TOML"),
        ((GOOD, ""), r"names no log: add \[\[log\]\]"),
        ((GOOD, "log = 7"), r"written \[\[log\]\]"),
        ((GOOD, "a" + ".a" * 5_000 + "=1"), "line 1: a name in so many parts"),
        ((GOOD, "a = " + "[" * 5_000), "not TOML"),
        ((GOOD, "a = " + "{a=" * 2_000), "not TOML"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_refuses_and_says_where(change: tuple[str, str], message: str) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(TrustError, match=message) as info:
        parse_trust(text, "mine.toml")
    assert str(info.value).startswith("mine.toml")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    with pytest.raises(TrustError, match="cannot read the trust file"):
        load_trust(path)
    path.write_bytes(b"\xff")
    with pytest.raises(TrustError, match="not UTF-8: byte 0"):
        load_trust(path)
    path.write_bytes(b"#\n" * 32_769)
    with pytest.raises(TrustError, match="too long"):
        load_trust(path)
    path.write_text(GOOD)
    assert load_trust(str(path)) == parse_trust(GOOD)


NUMBERS = {
    "digits": "9" * 5_000,
    "digits and a sign": "-" + "1" * 10_000,
    "hexadecimal": "0x" + "f" * 10_000,
    "binary": "0b" + "1" * 10_000,
    "infinite": "inf",
    "a fraction": "1.5",
    "an exponent": "1e999999",
    "a month that is none": "2026-13-01",
    "a year that is none": "0000-01-01T00:00:00Z",
    "an hour that is none": "25:00:00",
    "an offset that is none": "2026-01-01T00:00:00+24:00",
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("where", ["tsa_quorum", "require", "x", "top"])
def test_numbers_that_are_none(number: str, where: str) -> None:
    """Python refuses some, the TOML reader others, and the rest is of the wrong type or size."""
    text = f"x = {number}\n{GOOD}" if where == "top" else f"{GOOD}\n"
    if where == "require":
        text = GOOD.replace('["agent-key", "remembered"]', number)
    elif where != "top":
        text += f"{where} = {number}\n"
    with pytest.raises(TrustError, match=r"mine\.toml"):
        parse_trust(text, "mine.toml")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 30_000 + " = 1",
        "[a" + ".a" * 7_000 + "]\n" + "b = 1\n" * 5_000,
        "[a" + ".a" * 7_000 + "]\n" + "".join(f"b{at} = 1\n" for at in range(5_000)),
        "\n".join("a" + ".a" * 8_000 + f".b{at} = 1" for at in range(3)),
        '"a"' + '."a"' * 4_000 + " = 1",
        "'a'" + ".'a'" * 4_000 + " = 1",
        '"a=b"' + ".a" * 7_000 + " = 1",
        "x = {a" + ".a" * 7_000 + " = 1}",
        'x = ["""\n"""' + ", {a" + ".a" * 7_000 + " = 1}]",
        "a . a" + " . a" * 4_000 + " = 1",
    ],
    ids=lambda text: f"{text[:12]!r}",
)
def test_long_names_in_parts_are_refused_before_they_are_read(text: str) -> None:
    with pytest.raises(TrustError, match=r"a name in so many parts|is too long"):
        parse_trust(f"{GOOD}\n{text}", "mine.toml")


@pytest.mark.parametrize(
    "text",
    [
        "# ...............\n",
        'x = "..............."\n',
        "x = '...............'\n",
        'x = """\n...............\n"""\n',
        "x = '''\n...............\n'''\n",
        'x = "\\"..............."\n',
    ],
)
def test_dots_in_texts_and_comments_are_none_of_names(text: str) -> None:
    if text.startswith("#"):
        assert parse_trust(text + GOOD) == parse_trust(GOOD)
    else:
        with pytest.raises(TrustError, match="unknown name 'x'"):
            parse_trust(text + GOOD)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    ['"""' * 20_000, '"""\\' + '"""\\' * 15_000, "'''" * 20_001, '"' * 60_000, "\\" * 60_000],
    ids=lambda text: f"{text[:8]!r}",
)
def test_texts_that_do_not_end_are_refused_at_once(text: str) -> None:
    lines = "\n".join(text[at : at + 15_000] for at in range(0, len(text), 15_000))
    with pytest.raises(TrustError):
        parse_trust(lines)


def test_limits_of_size() -> None:
    assert parse_trust("# " + "x" * 16_382 + "\n" + GOOD) == parse_trust(GOOD)
    with pytest.raises(TrustError, match=r"trust.toml: line 1 is too long: at most 16384"):
        parse_trust("# " + "x" * 16_383 + "\n" + GOOD)
    with pytest.raises(TrustError, match="at most 65536 bytes"):
        parse_trust(GOOD + "#\n" * 32_768)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
trusts = st.builds(
    Trust,
    st.lists(
        st.binary(min_size=32, max_size=32).map(lambda seed: NoteSigner.from_seed("log", seed)),
        min_size=1,
        max_size=3,
    ).map(lambda signers: tuple(VerifierKey("log", s.verifier.public_key) for s in signers)),
    st.dictionaries(
        names,
        st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=3, unique=True).map(
            tuple
        ),
        max_size=4,
    ),
    st.none(),
    st.frozensets(st.sampled_from(POLICIES)),
)


@given(trusts)
def test_round_trip(trust: Trust) -> None:
    assert parse_trust(format_trust(trust)) == trust


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(TrustError):
        parse_trust(text)
