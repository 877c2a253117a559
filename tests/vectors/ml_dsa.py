"""ML-DSA-65 receipts of the conformance set, made once: their signatures are random by design.

`python -m tests.vectors.ml_dsa` makes other ones with the same keys, on a machine whose `cryptography` has
the algorithm. The set is made from the file, so that it stays the same everywhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.helpers.forge import raw
from tests.helpers.forge_envelopes import DRAFT_04
from tests.helpers.reading import with_member
from tests.helpers.receipts import ALICE, jcs
from tests.vectors.cases import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FILE", "ml_dsa"]

FILE = Path(__file__).resolve().parent / "ml_dsa_65.json"
SEED = bytes(range(32))
STRANGER = bytes(range(32, 64))


def ml_dsa() -> Iterator[Case]:
    """The rows."""
    made = json.loads(FILE.read_text("utf-8"))
    first, second, stranger = made["receipts"]
    keys = [{"alg": "ML-DSA-65", "public": made["public"]}]
    yield Case("single", [raw(first)], "valid", None, keys)
    yield Case("chain", [raw(first), raw(second)], "valid", None, keys, packed=True)
    changed = with_member(first, DRAFT_04.signed, "changed")
    yield Case("flipped", [raw(changed)], "invalid", "bad_signature", keys)
    yield Case("resigned", [raw(stranger)], "invalid", "bad_signature", keys)
    other = [{"alg": "Ed25519", "public": ALICE.key.hex()}]
    yield Case("other-key", [raw(first)], "undecidable", "unknown_key", other)
    said = with_member(first, "signature.alg", "ES256")  # of a length that no ES256 signature has
    yield Case("other-algorithm", [raw(said)], "invalid", "invalid_field", keys)


def _make() -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric import mldsa

    def signed(seed: bytes, number: int, previous: str | None) -> dict[str, Any]:
        secret = mldsa.MLDSA65PrivateKey.from_seed_bytes(seed)
        body = DRAFT_04.body(number, previous, ALICE)
        made = {"alg": "ML-DSA-65", "kid": body["issuer_id"], "sig": secret.sign(jcs(body)).hex()}
        return {"payload": body, "signature": made}

    assert DRAFT_04.link is not None
    first = signed(SEED, 0, None)
    second = signed(SEED, 1, DRAFT_04.link(first))
    secret = mldsa.MLDSA65PrivateKey.from_seed_bytes(SEED)
    return {
        "public": secret.public_key().public_bytes_raw().hex(),
        "receipts": [first, second, signed(STRANGER, 0, None)],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(_make(), ensure_ascii=False, indent=1) + "\n", "utf-8")
