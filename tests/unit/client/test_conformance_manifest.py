"""The manifest of a conformance run: what it must be, and that a fault is named by row and member."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger import conformance_manifest
from receiptledger.conformance_manifest import (
    MAX_FILES,
    MAX_KEYS,
    ManifestError,
    Row,
    read_manifest,
)
from receiptledger.core.errors import Reason
from receiptledger.core.receipt_check import GivenKey, Outcome
from tests.helpers.cases import named
from tests.helpers.receipts import ALICE, base64url

if TYPE_CHECKING:
    from pathlib import Path

KEY = {"alg": "Ed25519", "public": ALICE.key.hex()}
ROW: dict[str, Any] = {"name": "one", "files": ["a.json"], "keys": [KEY], "expect": "valid"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some files, inside one with a secret."""
    inside = tmp_path / "set"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.json").write_text("{}")
    for name in ("a.json", "sub/b.json"):
        (inside / name).write_text("{}")
    (inside / "out").symlink_to(tmp_path / "secret.json")
    (inside / "in").symlink_to(inside / "a.json")
    (inside / "round").symlink_to(inside / "round")
    return inside


def write(folder: Path, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / "manifest.json").write_text(text)


def rows(folder: Path, *values: Any) -> list[Row]:
    write(folder, list(values))
    return read_manifest(folder)


def refused(folder: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        read_manifest(folder)
    return str(caught.value).removeprefix(f"{folder / 'manifest.json'}")


def test_a_row(folder: Path) -> None:
    (row,) = rows(folder, ROW)
    key = (GivenKey(ALICE.key),)
    assert row == Row("one", (folder / "a.json",), key, (), None, Outcome.VALID, None)


def test_a_row_with_all_its_members(folder: Path) -> None:
    keys = [
        {"kid": "k", "alg": "EdDSA", "public": base64url(ALICE.key)},
        {"alg": "ed25519", "public": ALICE.key.hex()},
        {"alg": "RS256", "public": "not looked at"},
    ]
    more = {"profile": "any", "expect": "invalid", "reason": "gap", "keys": keys}
    (row,) = rows(folder, {**ROW, **more, "files": ["sub/b.json", "in", "./a.json"]})
    assert row.files == (folder / "sub" / "b.json", folder / "a.json", folder / "a.json")
    assert row.keys == (GivenKey(ALICE.key, "k"), GivenKey(ALICE.key))
    assert row.foreign == ("RS256",)
    assert (row.profile, row.expect, row.reason) == ("any", Outcome.INVALID, Reason.GAP)


def test_a_row_without_keys(folder: Path) -> None:
    (row,) = rows(folder, {**ROW, "keys": [], "expect": "undecidable", "reason": "unknown_key"})
    assert row.keys == ()


@pytest.mark.parametrize(
    ("value", "words"),
    named(
        {
            "an object": ({"rows": []}, "must be a list of rows, got an object"),
            "no rows": ([], "must have 1..10000 rows, got 0"),
            "too many rows": ([1] * 10_001, "must have 1..10000 rows, got 10001"),
            "no JSON": ("[", "is not JSON: Expecting value"),
            "a member twice": ('[{"name":"a","name":"b"}]', "a member appears twice"),
            "a number that is none": ("[NaN]", "NaN is no JSON number"),
            "very deep": ("[" * 100_000, "is nested too deeply"),
            "a text": (["row"], "row 1 must be an object, got text of 3 characters"),
        }
    ),
)
def test_what_is_no_manifest(folder: Path, value: Any, words: str) -> None:
    write(folder, value)
    assert words in refused(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    named(
        {
            "a name": ({"name": 7}, "row 2, member name must be text of 1..1024 characters, got "),
            "an empty name": ({"name": ""}, "member name must be text of 1..1024 characters"),
            "an unknown member": ({"reasn": "gap"}, "member 'reasn' is not known here"),
            "files that are no list": ({"files": "a.json"}, "member files must be a list"),
            "no files": ({"files": []}, f"member files must have 1..{MAX_FILES} entries, got 0"),
            "a file that is no text": (
                {"files": ["a.json", 7]},
                "member files[1] must be the name of a file, got the number 7",
            ),
            "an empty file name": ({"files": [""]}, "member files[0] must be the name of a file"),
            "a file name with a zero byte": (
                {"files": ["a\0"]},
                "member files[0] must be the name of a file",
            ),
            "a file name longer than names may be": (
                {"files": ["a" * 1024]},
                "member files[0] must be the name of a file, got text of 1024 characters",
            ),
            "a file that is not there": (
                {"files": ["none.json"]},
                "member files[0] must be a file that exists, got 'none.json'",
            ),
            "a folder": ({"files": ["sub"]}, "member files[0] must be a file that exists"),
            "a file above": (
                {"files": ["../secret.json"]},
                "member files[0] must be a file inside the manifest's folder, got '../secret.json'",
            ),
            "a file above by a detour": (
                {"files": ["sub/../../secret.json"]},
                "member files[0] must be a file inside",
            ),
            "an absolute file": (
                {"files": ["/etc/passwd"]},
                "member files[0] must be a file inside",
            ),
            "a link out of the folder": (
                {"files": ["out"]},
                "member files[0] must be a file inside",
            ),
            "a link in a circle": ({"files": ["round"]}, "member files[0] must be "),
            "keys that are no list": ({"keys": {}}, "member keys must be a list, got an object"),
            "too many keys": ({"keys": [KEY] * 257}, f"must have 0..{MAX_KEYS} entries, got 257"),
            "a key that is no object": ({"keys": ["x"]}, "member keys[0], must be an object"),
            "a key without its algorithm": (
                {"keys": [{"public": "00"}]},
                "member keys[0].alg is missing",
            ),
            "a key without its text": (
                {"keys": [KEY, {"alg": "ES256"}]},
                "member keys[1].public is missing",
            ),
            "a short key": (
                {"keys": [{"alg": "Ed25519", "public": "00"}]},
                "member keys[0].public must be a public key for Ed25519",
            ),
            "a key in capitals": (
                {"keys": [{**KEY, "public": ALICE.key.hex().upper()}]},
                "member keys[0].public must be a public key for Ed25519",
            ),
            "a key of another algorithm": (
                {"keys": [{**KEY, "alg": "ES256"}]},
                "member keys[0].public must be a public key for ES256",
            ),
            "a key with more": ({"keys": [{**KEY, "use": "sig"}]}, "member keys[0].'use' is not "),
            "a profile": ({"profile": 7}, "member profile must be text"),
            "an expectation": ({"expect": "ok"}, "member expect must be one of valid, invalid, "),
            "no expectation": ({"expect": None}, "member expect must be one of"),
            "a reason": (
                {"expect": "invalid", "reason": "nonsense"},
                "member reason must be one of malformed, too_large, ",
            ),
            "a reason for valid": (
                {"reason": "gap"},
                "member reason must be left out of a row that is expected to be valid",
            ),
        }
    ),
)
def test_a_fault_in_a_row_is_named(folder: Path, change: dict[str, Any], words: str) -> None:
    write(folder, [ROW, {**ROW, "name": "two", **change}])
    message = refused(folder)
    assert message.startswith(": row 2")
    assert words in message
    assert "name" in change or message.startswith(": row 2 ('two'), member ")


@pytest.mark.parametrize("member", ["name", "files", "keys", "expect"])
def test_a_member_that_is_missing(folder: Path, member: str) -> None:
    write(folder, [{name: item for name, item in ROW.items() if name != member}])
    assert f"member {member} is missing" in refused(folder)


def test_no_manifest(tmp_path: Path) -> None:
    assert "No such file" in refused_at(tmp_path)
    assert "No such file" in refused_at(tmp_path / "nowhere")


def test_a_manifest_that_is_too_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance_manifest, "MAX_MANIFEST_BYTES", 10)
    write(folder, [ROW])
    assert "too long: at most 10 bytes" in refused(folder)


def test_a_manifest_that_is_not_utf_8(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"[\xff]")
    assert "is not JSON" in refused(folder)


def refused_at(folder: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        read_manifest(folder)
    return str(caught.value)
