"""The two text forms of binary values: one text per value, and nothing else is read."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.encoding import (
    SAFE_INTEGER,
    base64url_decode,
    base64url_encode,
    digest_text,
    parse_digest,
)
from tests.helpers.cases import named

DIGEST = bytes(range(224, 256))
TEXT = "sha256:" + DIGEST.hex()


def test_the_safe_integer_is_the_last_one_a_double_counts_by_one() -> None:
    assert float(SAFE_INTEGER) + 1 == SAFE_INTEGER + 1
    assert float(SAFE_INTEGER + 1) + 1 == SAFE_INTEGER + 1


def test_digest_text_and_back() -> None:
    assert digest_text(DIGEST) == TEXT
    assert parse_digest(TEXT) == DIGEST


@pytest.mark.parametrize(
    "bad",
    named(
        {
            "upper-case digits": "sha256:" + DIGEST.hex().upper(),
            "upper-case name": "SHA256:" + DIGEST.hex(),
            "no name": DIGEST.hex(),
            "another hash": "sha512:" + DIGEST.hex(),
            "a digit too few": TEXT[:-1],
            "a digit too many": TEXT + "0",
            "a newline after": TEXT + "\n",
            "a space inside": TEXT[:20] + " " + TEXT[21:],
            "digits of another script": TEXT[:-1] + "\N{ARABIC-INDIC DIGIT ONE}",
            "empty": "",
            "bytes": TEXT.encode(),
            "nothing": None,
            "a number": 7,
        }
    ),
)
def test_texts_that_are_no_digest(bad: object) -> None:
    with pytest.raises(ValueError, match="64 lower-case hex digits"):
        parse_digest(bad)


def test_every_one_character_change_of_a_digest_is_refused_or_another_digest() -> None:
    for at in range(len(TEXT)):
        for character in string.printable:
            changed = TEXT[:at] + character + TEXT[at + 1 :]
            if changed == TEXT:
                continue
            try:
                assert parse_digest(changed) != DIGEST
            except ValueError:
                continue
            assert digest_text(parse_digest(changed)) == changed


@given(st.binary(max_size=70))
def test_base64url_and_back(data: bytes) -> None:
    text = base64url_encode(data)
    assert text == base64.urlsafe_b64encode(data).decode().rstrip("=")
    assert base64url_decode(text, len(data)) == data


@pytest.mark.parametrize(
    "bad",
    named(
        {
            "padding": "AAECAw==",
            "standard alphabet": "+/+/+w",
            "trailing bits": "AAECAx",
            "length no encoding has": "AAECA",
            "a space": "AAEC Aw",
            "a newline": "AAECAw\n",
            "a foreign character": "AAEC!Aw",
            "another script": "AAECA\N{FULLWIDTH LATIN CAPITAL LETTER A}",
            "bytes": b"AAECAw",
            "nothing": None,
            "three bytes": "AAEC",
            "five bytes": "AAECAwQ",
            "empty": "",
        }
    ),
)
def test_texts_that_are_no_base64url_of_four_bytes(bad: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        base64url_decode(bad, 4)


def test_another_length_says_what_was_expected() -> None:
    with pytest.raises(ValueError, match="expected 32 bytes, got 4"):
        base64url_decode("AAECAw", 32)


@given(st.text(max_size=12))
def test_any_text_is_refused_or_the_only_spelling(text: str) -> None:
    for size in range(10):
        try:
            data = base64url_decode(text, size)
        except ValueError:
            continue
        assert base64url_encode(data) == text
