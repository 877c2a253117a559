"""Dialects on receipts other projects made, on published tables, and against JavaScript itself."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import p256
from receiptledger.core.algorithms import ED25519, ES256, check_signature
from receiptledger.core.canonical import parse
from receiptledger.core.dialect import DIALECTS, EXACT_DIALECTS, Source, encode
from receiptledger.core.encoding import base64url_decode
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.public_key import KEY_DECODERS, parse_public_key
from tests.helpers import ecmascript

if TYPE_CHECKING:
    from pathlib import Path

AGT_SIGNED = [
    *("agent_did", "args_hash", "cedar_decision", "cedar_policy_id", "receipt_id", "timestamp"),
    *("tool_name", "parent_receipt_hash", "session_id"),
]
NOBULEX_SIGNED = [
    *("agent_id", "action_type", "scope", "timestamp_ms", "verdict", "action_ref", "version"),
    *("policy_version", "attempt_id", "metadata"),
]


def source(raw: bytes) -> Source:
    return Source(parse(raw), raw)


def items(path: Path) -> list[bytes]:
    """The receipts of a JSON array, each with its numbers and order as they are there."""
    whole = b'{"items":' + path.read_bytes() + b"}"
    written = source(whole).carried(("items",)).decode("utf-8")
    decoder, found, at = json.JSONDecoder(), [], 1
    while written[at : at + 1] == "{":
        end = decoder.raw_decode(written, at)[1]
        found.append(written[at:end].encode("utf-8"))
        at = end + 1
    return found


def root(given: Source, dialect: str) -> Any:
    return given.exact if dialect in EXACT_DIALECTS else given.parsed.value


def kept(value: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: value[name] for name in names if value.get(name) is not None}


def holds(signature: bytes, message: bytes, key: bytes, algorithm: str = ED25519) -> bool:
    try:
        check_signature(signature, message, key, algorithm)
    except ReceiptError as error:
        assert error.reason == Reason.BAD_SIGNATURE  # noqa: PT017 - most hold
        return False
    return True


@pytest.mark.parametrize(
    ("name", "dialects"),
    [
        # What Python wrote keeps its 1.0; RFC 8785 has no such number.
        ("01-valid", {"py", "py-ascii", "verbatim-number"}),
        ("02-tampered-answer", set()),
        ("03-valid-float-1.0", {"py", "py-ascii", "verbatim-number"}),
        ("04-float-rewritten-as-int", set()),
        # Names beyond the BMP: Python sorts by code point, JavaScript by UTF-16.
        ("06-valid-unicode-keys", {"py", "verbatim-number"}),
    ],
)
def test_answerproof_signs_what_python_writes(vectors: Path, name: str, dialects: set[str]) -> None:
    folder = vectors / "receipts" / "answerproof" / "generated"
    given = source((folder / f"{name}.json").read_bytes())
    key = parse_public_key(
        json.loads((folder / "keys-and-sources.json").read_bytes())["signer_public_key_b64url"]
    )
    seal = given.parsed.value["signature"]
    assert KEY_DECODERS["base64url"](seal["public_key"]) == key
    signature = base64url_decode(seal["signature"], 64)
    found = {
        dialect
        for dialect in DIALECTS
        if holds(signature, encode(dialect, root(given, dialect)["payload"], given), key)
    }
    assert found - {"as-carried"} == dialects


def test_protect_mcp_adk_signs_and_links_what_python_writes(vectors: Path) -> None:
    folder = vectors / "receipts" / "protect-mcp-adk" / "generated"
    key = parse_public_key(json.loads((folder / "key.json").read_bytes())["public_key_hex"])
    link, seen = None, 0
    for raw in items(folder / "chain.json"):
        given = source(raw)
        payload = encode("py", given.exact["payload"], given)
        signature = bytes.fromhex(given.parsed.value["signature"]["sig"])
        assert holds(signature, payload, key)
        assert not holds(signature, payload + b" ", key)
        assert given.parsed.value["payload"]["previousReceiptHash"] == link
        link = "sha256:" + sha256(payload).hexdigest()
        seen += "ü" in raw.decode("utf-8")
        # With the text escaped it is another receipt.
        ascii_only = encode("py-ascii", given.exact["payload"], given)
        assert holds(signature, ascii_only, key) == payload.isascii()
    assert seen == 1


def test_agent_governance_toolkit_signs_what_python_writes(vectors: Path) -> None:
    link = None
    raws = items(vectors / "receipts" / "agt-mcp-receipts" / "generated" / "chain.json")
    assert len(raws) > 1
    for raw in raws:
        given = source(raw)
        value = given.parsed.value
        signed = encode("py", kept(given.exact, AGT_SIGNED), given)
        key = KEY_DECODERS["hex"](value["signer_public_key"])
        assert holds(bytes.fromhex(value["signature"]), signed, key)
        assert value["payload_hash"] == sha256(signed).hexdigest()
        assert value["parent_receipt_hash"] == link
        link = value["payload_hash"]


def test_nobulex_signs_rfc8785_with_either_algorithm(vectors: Path) -> None:
    folder = vectors / "receipts" / "nobulex" / "generated"
    given = source((folder / "es256-receipt.json").read_bytes())
    value = given.parsed.value
    signed = encode("jcs", kept(value, NOBULEX_SIGNED), given)
    signature = p256.signature_from_der(bytes.fromhex(value["signature"]))
    key = KEY_DECODERS["hex"](value["signer_public_key"])
    assert holds(signature, signed, key, ES256)
    assert not holds(signature, signed + b" ", key, ES256)

    chain = source((folder / "chain-export.json").read_bytes())
    whole_numbers = 0
    for entry, exact in zip(chain.parsed.value["entries"], chain.exact["entries"], strict=True):
        receipt = entry["receipt"]
        signature = bytes.fromhex(receipt["signature"])
        key = KEY_DECODERS["hex"](receipt["signer_public_key"])
        assert holds(signature, encode("jcs", kept(receipt, NOBULEX_SIGNED), chain), key)
        other = encode("py", kept(exact["receipt"], NOBULEX_SIGNED), chain)
        whole_numbers += not holds(signature, other, key)
    assert whole_numbers == 1  # "amount": 12.0


def test_published_differences(vectors: Path) -> None:
    """33 documents and what serialisers make of them; those no parser should take are refused."""
    cases = json.loads((vectors / "jcs" / "canon-diff.json").read_bytes())["cases"]
    columns = {
        "jcs": "jcs",
        "py": "json.loads+json.dumps(sort_keys,ensure_ascii=False)",
        "py-ascii": "json.dumps(sort_keys) ascii",
    }
    taken = 0
    for case in cases:
        raw = case["input"].encode("utf-8", "surrogatepass")
        try:
            given = source(raw)
        except ReceiptError:
            assert case["strict_parse"] != "ok" or case["name"] == "inf-overflow", case["name"]
            continue
        taken += 1
        for dialect, column in columns.items():
            written = encode(dialect, root(given, dialect), given).decode("utf-8")
            assert written == case[column], (case["name"], dialect)
    assert taken == 26


def test_published_numbers(vectors: Path) -> None:
    """The ES6 number file of RFC 8785 appendix B: IEEE bits, and what ECMAScript writes."""
    lines = (vectors / "jcs" / "es6_10k.txt").read_text("ascii").split()
    given = source(b"{}")
    for line in lines:
        bits, text = line.split(",")
        (number,) = struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0")))
        assert encode("js-object", [number], given).decode() == f"[{text}]"
        assert ecmascript.number_text(number) == text
    assert len(lines) == 10_000


SCRIPT = """
const read = require("fs").readFileSync(0, "utf8");
const inserted = (value) => {
  if (Array.isArray(value)) return value.map(inserted);
  if (value === null || typeof value !== "object") return value;
  const result = {};
  for (const name of Object.keys(value).sort()) result[name] = inserted(value[name]);
  return result;
};
const written = JSON.parse(read).map((text) => JSON.stringify(inserted(JSON.parse(text))));
process.stdout.write(JSON.stringify(written));
"""

FOR_JAVASCRIPT = [
    '{"b":1,"a":2,"10":3,"9":4,"1":5,"0":6,"01":7,"-1":8,"1.5":9,"1e3":10,"+1":11," 1":12}',
    '{"4294967296":1,"4294967295":2,"4294967294":3,"4294967293":4,"10":5,"5000000000":6,"-1":7}',
    '{"9007199254740992":1,"9007199254740991":2,"2":3}',
    '{"\ue000":1,"\U00010000":2,"\uffff":3,"é":4,"e\u0301":5,"":6,"\\u0000":7}',
    '{"t":"\\u0000\\u0008\\u000b\\u001f\\u007f\\u0080\\u2028\\u2029\\ufeff<>&\\/\\"\\\\"}',
    '{"t":"\U0001f600\\ud83d\\ude00","constructor":1,"toString":2,"length":3}',
    '{"n":[0,-0,-0.0,1.0,1e5,0.1,1e-5,1e-6,1e-7,1.5e-7,1e20,1e21,123456789012345680000]}',
    '{"n":[9007199254740993,18446744073709551617,5e-324,1.7976931348623157e308,1e-324]}',
    '{"n":[0.000001,0.0000001,100000000000000000000000,333333333.33333329,4.50,2e-3]}',
    '{"deep":[{"2":{"b":[],"a":{}},"1":[{"10":null,"9":true,"x":false}]}]}',
]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")
def test_js_object_is_what_javascript_writes() -> None:
    answer = subprocess.run(
        ["node", "-e", SCRIPT],
        input=json.dumps(FOR_JAVASCRIPT),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    written = json.loads(answer.stdout)
    assert len(written) == len(FOR_JAVASCRIPT)
    for text, expected in zip(FOR_JAVASCRIPT, written, strict=True):
        given = source(text.encode("utf-8"))
        assert encode("js-object", given.parsed.value, given).decode("utf-8") == expected
        assert ecmascript.stringify(json.loads(text, parse_int=float)) == expected


@pytest.mark.parametrize("text", FOR_JAVASCRIPT)
def test_js_object_is_the_oracle_of_the_other_tests(text: str) -> None:
    """The same without node, which checks the oracle where there is one."""
    given = source(text.encode("utf-8"))
    expected = ecmascript.stringify(json.loads(text, parse_int=float))
    assert encode("js-object", given.parsed.value, given).decode("utf-8") == expected
