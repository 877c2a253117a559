"""Manifests for the foreign vectors: their receipts as files, and what their authors say of them.

Expected results are those of each folder's README or index. A reason is given where the folder says what
is wrong, in our words for it.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["GROUPS", "NOT_EXPRESSIBLE", "write_set"]

Row = dict[str, Any]
LESSON18_KEY = [{"alg": "Ed25519", "public": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]

# What a row of a manifest cannot say: windows and revocations of keys, commitments of issuers. Such
# receipts are well signed, and refused for reasons that lie outside them.
NOT_EXPRESSIBLE = frozenset(
    {
        "argentum-superseded-reject.json with jwks-argentum.json",
        "keywindow-at-valid-until.json with jwks-window.json",
        "keywindow-after.json with jwks-window.json",
        "keywindow-before.json with jwks-window.json",
        "revocation-after.json with jwks-revoked.json",
    }
)


def write_set(group: str, vectors: Path, folder: Path) -> list[Row]:
    """Write a group's receipts and manifest into a folder; its rows."""
    rows = list(GROUPS[group](vectors / "receipts" / group, folder))
    (folder / "manifest.json").write_text(json.dumps(rows))
    return rows


def _copy(source: Path, folder: Path, name: str) -> str:
    (folder / name).write_bytes((source / name).read_bytes())
    return name


def _load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _row(
    name: str,
    files: list[str],
    keys: list[Row],
    expect: str,
    reason: str | None = None,
    **more: str,
) -> Row:
    row: Row = {"name": name, "files": files, "keys": keys, **more, "expect": expect}
    return row if reason is None else {**row, "reason": reason}


def _ed25519(public: str, kid: str | None = None) -> Row:
    return {"alg": "Ed25519", "public": public} | ({} if kid is None else {"kid": kid})


_LESSON18 = {
    "01-valid": ("valid", None),
    "02-tampered": ("invalid", "bad_signature"),
    "03-chain": ("valid", None),
    "03b-chain-gap": ("invalid", "gap"),
    "03c-chain-resigned-middle": ("invalid", "broken_link"),
    "03d-chain-tail-cut": ("valid", None),
    "04-attacker-resigned": ("invalid", "wrong_key"),
}


def _lesson18(source: Path, folder: Path) -> Iterator[Row]:
    rules = {"v1-prehash": "ms-lesson18-prehash", "v2-direct": "ms-lesson18"}
    for rule, profile in rules.items():
        for case, (expect, reason) in _LESSON18.items():
            name = _copy(source / "rebuilt", folder, f"{rule}-{case}.json")
            yield _row(name, [name], LESSON18_KEY, expect, reason)
            yield _row(
                f"{name} as {profile}", [name], LESSON18_KEY, expect, reason, profile=profile
            )
        (other,) = set(rules.values()) - {profile}
        for case in ("01-valid", "03-chain"):
            name = f"{rule}-{case}.json"
            words = f"{name} under the other rule"
            yield _row(words, [name], LESSON18_KEY, "invalid", "bad_signature", profile=other)


def _farley(source: Path, folder: Path) -> Iterator[Row]:
    rebuilt = source / "rebuilt"
    for case in _load(rebuilt / "index.json")["cases"]:
        jwks = case["jwks"]
        given = [] if jwks is None else _load(rebuilt / jwks)["keys"]
        name = f"{case['file']} with {jwks}"
        if name in NOT_EXPRESSIBLE or case["expect"] == "contradicted":
            continue
        files = [part.split()[0] for part in case["file"].split("+")]
        files = [_copy(rebuilt, folder, one) for one in files if "commitment" not in one]
        keys = [_ed25519(one["x"], one["kid"]) for one in given]
        yield _row(name, files, keys, case["expect"])


def _answerproof(source: Path, folder: Path) -> Iterator[Row]:
    generated = source / "generated"
    key = [_ed25519(_load(generated / "keys-and-sources.json")["signer_public_key_b64url"])]
    for name, expect, reason in (
        ("01-valid.json", "valid", None),
        ("02-tampered-answer.json", "invalid", "bad_signature"),
        ("03-valid-float-1.0.json", "valid", None),
        (
            "04-float-rewritten-as-int.json",
            "invalid",
            "bad_signature",
        ),  # byte-exact, as its README says
        ("05-attacker-own-key.json", "invalid", "wrong_key"),
        ("06-valid-unicode-keys.json", "valid", None),
    ):
        yield _row(name, [_copy(generated, folder, name)], key, expect, reason)


def _nobulex(source: Path, folder: Path) -> Iterator[Row]:
    generated = source / "generated"
    chain = _copy(generated, folder, "chain-export.json")
    entries = _load(generated / chain)["entries"]
    key = [_ed25519(entries[0]["receipt"]["signer_public_key"])]
    yield _row("the export", [chain], key, "valid")
    for entry in entries:
        name = f"entry-{entry['index']}.json"
        (folder / name).write_text(json.dumps(entry["receipt"]))
        yield _row(name, [name], key, "valid")
    es256 = _copy(generated, folder, "es256-receipt.json")
    public = _load(generated / es256)["signer_public_key"]
    yield _row("ES256", [es256], [{"alg": "ES256", "public": public}], "valid")
    yield _row("ES256 without its key", [es256], key, "undecidable", "unknown_key")


def _agt(source: Path, folder: Path) -> Iterator[Row]:
    name = _copy(source / "generated", folder, "chain.json")
    receipts = _load(folder / name)
    key = [_ed25519(receipts[0]["signer_public_key"])]
    yield _row("chain", [name], key, "valid")
    (folder / "gap.json").write_text(json.dumps([receipts[0], receipts[2]]))
    yield _row("gap", ["gap.json"], key, "invalid", "gap")


def _adk(source: Path, folder: Path) -> Iterator[Row]:
    name = _copy(source / "generated", folder, "chain.json")
    given = _load(source / "generated" / "key.json")
    key = [_ed25519(given["public_key_hex"], given["kid"])]
    yield _row("chain", [name], key, "valid")
    yield _row("chain, named", [name], key, "valid", profile="protect-mcp-adk")


def _agent_receipts(source: Path, folder: Path) -> Iterator[Row]:
    tests = source / "cross-sdk-tests"

    def pem(document: Any) -> list[Row]:
        lines = document["keys"]["publicKey"].split("\n")
        der = base64.b64decode("".join(line for line in lines if not line.startswith("-----")))
        return [_ed25519(der[-32:].hex())]

    def write(name: str, receipts: list[Any]) -> list[str]:
        (folder / name).write_text("\n".join(json.dumps(one) for one in receipts))
        return [name]

    for version in ("go", "py"):
        document = _load(tests / f"{version}_vectors.json")
        files = write(f"{version}.json", [document["signing"]["signed"]])
        yield _row(f"{version}: signed", files, pem(document), "valid")
    for version in ("v020", "v030", "v040", "v050"):
        document = _load(tests / f"{version}_vectors.json")
        for name, item in document.items():
            if isinstance(item, dict) and item.get("expectedValid"):
                receipts = item["receipts"] if "receipts" in item else [item["receipt"]]
                files = write(f"{version}-{name}.jsonl", receipts)
                yield _row(f"{version}: {name}", files, pem(document), "valid")
    document = _load(tests / "malformed_vectors.json")
    for item in (*document["receipts"], *document["chains"]):
        receipts = item["receipts"] if "receipts" in item else [item["receipt"]]
        files = write(f"malformed-{item['name']}.jsonl", receipts)
        yield _row(f"malformed: {item['name']}", files, pem(document), "invalid")
    # Illustrations with placeholder proofs, which must not pass under any key.
    for path in sorted((source / "spec" / "examples").glob("*.json")):
        name = _copy(path.parent, folder, path.name)
        yield _row(f"example: {name}", [name], pem(document), "invalid")
        yield _row(f"example without a key: {name}", [name], [], "undecidable", "unknown_key")


GROUPS: dict[str, Callable[[Path, Path], Iterator[Row]]] = {
    "ms-lesson18": _lesson18,
    "draft-farley": _farley,
    "answerproof": _answerproof,
    "nobulex": _nobulex,
    "agt-mcp-receipts": _agt,
    "protect-mcp-adk": _adk,
    "agent-receipts": _agent_receipts,
}
