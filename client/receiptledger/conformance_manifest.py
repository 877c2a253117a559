"""The manifest of a conformance run: strict reading of `manifest.json`.

It is a list of rows `{"name", "files", "keys", "profile"?, "expect", "reason"?}`:

* `files`: names of files in the manifest's folder or below it. Each holds one receipt as JSON, an array
  of them, or JSON Lines; several receipts are one chain, in order.
* `keys`: `{"kid"?, "alg", "public"}`, the public key in lower-case hex or unpadded base64url.
* `profile`: id of the format the receipts must be of; else the format is detected.
* `expect`: `valid`, `invalid` or `undecidable`. `reason`: one of the closed list, for the latter two.

The manifest is the user's own, so a fault in it is misuse and not a result: it is named by row and
member. A name that leads out of the folder is such a fault, also through a symbolic link.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from receiptledger.core.canonical import describe, shown
from receiptledger.core.errors import Reason
from receiptledger.core.public_key import parse_public_key
from receiptledger.core.receipt_check import GivenKey, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "MANIFEST",
    "MAX_FILES",
    "MAX_KEYS",
    "MAX_MANIFEST_BYTES",
    "MAX_ROWS",
    "ManifestError",
    "Row",
    "read_manifest",
]

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
MAX_ROWS = 10_000
MAX_FILES = 4_096  # of one row
MAX_KEYS = 256  # of one row
MAX_TEXT = 1_024  # characters of a name, a path, a kid
MAX_KEY_TEXT = 8_192  # hex digits of the longest key that is known, and to spare

# How receipts and key sets name the algorithms, in whatever case.
_ALGORITHMS = {
    "ed25519": "Ed25519",
    "eddsa": "Ed25519",
    "es256": "ES256",
    "ml-dsa-65": "ML-DSA-65",
}


class ManifestError(Exception):
    """The manifest cannot be used; the message names the row and the member."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        name: for people.
        files: resolved paths, inside the manifest's folder.
        keys: those the receipts may be signed by.
        foreign: names of algorithms of further keys, which nothing here can use.
        profile: id of the only format to read by; None to detect it.
        expect: how the row must come out.
        reason: why, or None when any reason will do.
    """

    name: str
    files: tuple[Path, ...]
    keys: tuple[GivenKey, ...]
    foreign: tuple[str, ...]
    profile: str | None
    expect: Outcome
    reason: Reason | None


def read_manifest(folder: Path) -> list[Row]:
    """The rows of a folder's manifest.

    Raises:
        ManifestError: it cannot be read, is no manifest, or names a file that is not in the folder.
    """
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            data = file.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"cannot read the manifest {path}: {error.strerror}") from None
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"{path} is too long: at most {MAX_MANIFEST_BYTES} bytes")
    try:
        rows = json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except RecursionError:
        raise ManifestError(f"{path} is nested too deeply") from None
    except ValueError as error:
        raise ManifestError(f"{path} is not JSON: {error}") from None
    if not isinstance(rows, list):
        raise ManifestError(f"{path} must be a list of rows, got {describe(rows)}")
    if not 1 <= len(rows) <= MAX_ROWS:
        raise ManifestError(f"{path} must have 1..{MAX_ROWS} rows, got {len(rows)}")
    root = folder.resolve()
    return [_row(_Members(f"{path}: row {at}", row), root) for at, row in enumerate(rows, 1)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        (twin, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"a member appears twice in one object: {shown(twin)}")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


class _Members:
    """One object of the manifest. Members are taken one by one; `close` refuses what is left."""

    def __init__(self, where: str, value: object, member: str = "") -> None:
        self.where = where
        self._prefix = f"{member}." if member else ""
        if not isinstance(value, dict):
            what = f", member {member}," if member else ""
            raise ManifestError(f"{where}{what} must be an object, got {describe(value)}")
        self._left = dict(value)
        name = value.get("name")
        if not member and isinstance(name, str):
            self.where = f"{where} ({shown(name)})"

    def wrong(self, member: str, want: str, got: object) -> ManifestError:
        """The fault of a member, to be raised; `got` is shown when it is short text, else described."""
        came = shown(got) if isinstance(got, str) and len(got) <= 80 else describe(got)
        return ManifestError(
            f"{self.where}, member {self._prefix}{member} must be {want}, got {came}"
        )

    def has(self, member: str) -> bool:
        return member in self._left

    def text(self, member: str, most: int = MAX_TEXT) -> str:
        value = self._take(member)
        if not isinstance(value, str) or not 1 <= len(value) <= most:
            raise self.wrong(member, f"text of 1..{most} characters", value)
        return value

    def choice(self, member: str, options: Iterable[str]) -> str:
        value = self._take(member)
        if not isinstance(value, str) or value not in options:
            raise self.wrong(member, "one of " + ", ".join(options), value)
        return value

    def items(self, member: str, least: int, most: int) -> list[Any]:
        value = self._take(member)
        if not isinstance(value, list):
            raise self.wrong(member, "a list", value)
        if not least <= len(value) <= most:
            raise ManifestError(
                f"{self.where}, member {self._prefix}{member} must have {least}..{most} entries, "
                f"got {len(value)}"
            )
        return value

    def close(self) -> None:
        for member in sorted(self._left):
            raise ManifestError(
                f"{self.where}, member {self._prefix}{shown(member)} is not known here"
            )

    def _take(self, member: str) -> Any:
        if member not in self._left:
            raise ManifestError(f"{self.where}, member {self._prefix}{member} is missing")
        return self._left.pop(member)


def _row(row: _Members, root: Path) -> Row:
    name = row.text("name")
    files = tuple(
        _file(row, f"files[{at}]", item, root)
        for at, item in enumerate(row.items("files", 1, MAX_FILES))
    )
    keys: list[GivenKey] = []
    foreign: list[str] = []
    for at, item in enumerate(row.items("keys", 0, MAX_KEYS)):
        found = _key(_Members(row.where, item, f"keys[{at}]"))
        if isinstance(found, str):
            foreign.append(found)
        else:
            keys.append(found)
    profile = row.text("profile") if row.has("profile") else None
    expect = Outcome(row.choice("expect", [outcome.value for outcome in Outcome]))
    reason = None
    if row.has("reason"):
        text = row.choice("reason", [reason.value for reason in Reason])
        if expect is Outcome.VALID:
            raise row.wrong("reason", "left out of a row that is expected to be valid", text)
        reason = Reason(text)
    row.close()
    return Row(name, files, tuple(keys), tuple(foreign), profile, expect, reason)


def _key(members: _Members) -> GivenKey | str:
    """A key, or the name of its algorithm when nothing here knows that."""
    kid = members.text("kid") if members.has("kid") else None
    name = members.text("alg")
    public = members.text("public", MAX_KEY_TEXT)
    members.close()
    algorithm = _ALGORITHMS.get(name.lower())
    if algorithm is None:
        return name
    try:
        return GivenKey(parse_public_key(public, algorithm), kid)
    except ValueError as error:
        raise members.wrong(
            "public",
            f"a public key for {name}, lower-case hex or unpadded base64url ({error})",
            public,
        ) from None


def _file(row: _Members, member: str, name: object, root: Path) -> Path:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_TEXT or "\0" in name:
        raise row.wrong(member, "the name of a file", name)
    try:
        path = (root / name).resolve()
        found = path.is_file()
    except (OSError, RuntimeError):  # longer than a name may be; a symbolic link in a circle
        raise row.wrong(member, "the name of a file", name) from None
    if not path.is_relative_to(root):
        raise row.wrong(member, "a file inside the manifest's folder", name)
    if not found:
        raise row.wrong(member, "a file that exists", name)
    return path
