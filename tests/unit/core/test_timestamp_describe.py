"""What `inspect` shows of a response: everything that can be read, whatever is wrong with it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from receiptledger.core.timestamp import Cause, TimestampError, describe_response
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.tsa_forge import MESSAGE, NONCE, attribute, octets, seq, tlv
from tests.helpers.tsa_pki import INTER, TSA, issue


def described(response: bytes) -> dict[str, Any]:
    said = describe_response(response)
    assert json.loads(json.dumps(said)) == said  # JSON types only
    return said


def test_a_whole_response() -> None:
    info = forge.tst_info(
        tsa=forge.directory_name(TSA.subject), extensions=forge.extension("1.2.3", seq())
    )
    response = pki.response_of(info)
    said = described(response)
    token = said.pop("token")
    assert said == {
        "kind": "response",
        "bytes": len(response),
        "sha256": hashlib.sha256(response).hexdigest(),
        "status": "granted",
        "status_text": [],
        "failures": [],
    }
    assert token["problems"] == []
    assert token["sha256"] == hashlib.sha256(pki.token_of(info)).hexdigest()
    assert token["info"] == {
        "policy": forge.POLICY,
        "hash_algorithm": "sha256",
        "imprint": hashlib.sha256(MESSAGE).hexdigest(),
        "serial": "0x7",
        "gen_time": "2026-06-01T12:00:00+00:00",
        "accuracy_seconds": 1.5001,
        "ordering": False,
        "nonce": hex(NONCE),
        "tsa": "O=Forge, CN=TSA",
        "extensions": ["1.2.3"],
    }
    assert token["signer"] == {
        "issuer": "O=Forge, CN=Issuing CA",
        "serial": hex(TSA.serial),
        "key_identifier": None,
        "digest_algorithm": "sha256",
        "signature_algorithm": forge.OIDS["ecdsa-sha256"],
        "signed_attributes": [
            forge.OIDS["contentType"],
            forge.OIDS["messageDigest"],
            forge.OIDS["ess-v2"],
        ],
    }
    assert token["signing_certificate"] == {
        "v2": [{"hash_algorithm": "sha256", "hash": hashlib.sha256(TSA.der).hexdigest()}]
    }
    assert [one["subject"] for one in token["certificates"]] == [
        "O=Forge, CN=TSA",
        "O=Forge, CN=Issuing CA",
    ]
    assert token["certificates"][0] == {
        "subject": "O=Forge, CN=TSA",
        "issuer": "O=Forge, CN=Issuing CA",
        "serial": hex(TSA.serial),
        "not_before": "2020-01-01T00:00:00+00:00",
        "not_after": "2045-01-01T00:00:00+00:00",
        "key": "p256",
        "sha256": hashlib.sha256(TSA.der).hexdigest(),
    }
    assert token["embedded_crls"] == 0


def test_a_bare_token() -> None:
    said = described(pki.token_of(forge.tst_info(nonce=None, accuracy=b"")))
    assert said["kind"] == "token"
    assert "status" not in said
    assert said["token"]["info"]["nonce"] is None
    assert said["token"]["info"]["accuracy_seconds"] is None
    assert said["token"]["info"]["tsa"] is None


def test_a_refusal() -> None:
    failures = forge.bits(b"\x84\x02", 1)
    texts = [forge.text("no")]
    said = described(forge.response(None, forge.status_info(2, texts, failures)))
    assert said["status"] == "rejection"
    assert said["status_text"] == ["no"]
    assert said["failures"] == ["bad_alg", "bad_data_format", "time_not_available"]
    assert said["token"] is None
    said = described(forge.response(None, forge.status_info(99, failure=forge.bits(b"\x40", 6))))
    assert (said["status"], said["failures"]) == ("0x63", ["bit 1"])


def test_a_signer_by_key_identifier_and_a_name_of_another_kind() -> None:
    info = forge.tst_info(tsa=tlv(0x82, b"tsa.example"))
    said = described(pki.response_of(info, identifier=tlv(0x80, TSA.key_identifier), version=3))
    token = said["token"]
    assert token["info"]["tsa"] == "#" + tlv(0x82, b"tsa.example").hex()
    assert (token["signer"]["issuer"], token["signer"]["serial"]) == (None, None)
    assert token["signer"]["key_identifier"] == TSA.key_identifier.hex()


def test_a_token_that_is_broken_everywhere() -> None:
    strange = issue("Coin", pki.key("k256", 2), issuer=INTER)
    said = described(
        pki.response_of(
            forge.tst_info(version=2),
            attributes=[attribute("contentType")],
            certificates=[strange.der, seq(octets(b"x"))],
        )
    )
    token = said["token"]
    assert token["info"] is None
    assert token["signing_certificate"] is None
    assert token["certificates"][0]["key"].startswith("unsupported")
    assert token["certificates"][1] is None
    assert [problem.partition(":")[0] for problem in token["problems"]] == [
        "TSTInfo",
        "signing certificate",
        "certificate 1",
    ]


def test_a_token_that_cannot_be_opened() -> None:
    token = described(forge.response(seq(octets(b"x"))))["token"]
    assert token["info"] is None
    assert token["signer"] is None
    assert token["certificates"] is None
    assert len(token["problems"]) == 1


@pytest.mark.parametrize("data", [b"", b"<html>", octets(b"x"), seq()])
def test_what_is_no_response(data: bytes) -> None:
    with pytest.raises(TimestampError) as caught:
        describe_response(data)
    assert caught.value.cause is Cause.DER
