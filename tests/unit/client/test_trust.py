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
        ((GOOD, "a" + ".a" * 5_000 + "=1"), "unknown name|not TOML"),
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
    path.write_bytes(b"#" * 1_048_577)
    with pytest.raises(TrustError, match="too long"):
        load_trust(path)
    path.write_text(GOOD)
    assert load_trust(str(path)) == parse_trust(GOOD)


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
