"""`receiptledger timestamp verify` and `inspect`: exit codes, causes, and the files people have."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from receiptledger.certificates import to_pem
from receiptledger.cli.app import app
from receiptledger.core.timestamp import Cause, token_of
from tests.helpers import tsa_forge as forge
from tests.helpers.authority import Authority
from tests.helpers.cases import named

if TYPE_CHECKING:
    from pathlib import Path

ALPHA, BETA = Authority("alpha"), Authority("beta")
MESSAGE = b"what was stamped\n"
AT = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
DAY = timedelta(days=1)
REQUEST, RESPONSE = ALPHA.answer(MESSAGE, AT)


def cli(*args: object, stdin: bytes = b"") -> Result:
    """Run the command; a traceback fails the test."""
    result = CliRunner().invoke(app, ["timestamp", *map(str, args)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    crls = {name: ALPHA.crls(AT + DAY, *args) for name, args in CRLS.items()}
    files = {
        "message": MESSAGE,
        "other": b"something else\n",
        "good.tsr": RESPONSE,
        "good.tsq": REQUEST,
        "good.tst": token_of(RESPONSE),
        "bare.tsr": ALPHA.answer(MESSAGE, AT, certificates=False)[1],
        "rejected.tsr": forge.response(
            None, forge.status_info(2, [forge.text("no")], forge.failure("bad_alg"))
        ),
        "long.tsr": RESPONSE + bytes(100_000),
        "root.pem": to_pem((ALPHA.root.der,)),
        "beta.pem": to_pem((BETA.root.der,)),
        "chain.pem": to_pem((ALPHA.tsa.der, ALPHA.ca.der)),
        **{f"{name}-{at}.crl": one for name, both in crls.items() for at, one in enumerate(both)},
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


CRLS: dict[str, tuple[Any, ...]] = {
    "good": (),
    "void": (AT - DAY, 1),
    "retired": (AT + timedelta(hours=1), 5),
}


def verify(folder: Path, name: str = "good.tsr", *more: object, root: str = "root.pem") -> Result:
    message = ("--message", folder / "message")
    return cli("verify", folder / name, *message, "--root", folder / root, *more)


def cause(result: Result) -> str:
    assert result.exit_code == 1, result.output
    value = json.loads(result.stdout)
    assert value["result"] == "refused"
    assert f"({value['cause']})" in value["detail"]
    return str(Cause(value["cause"]))


def test_accepted(folder: Path) -> None:
    result = verify(folder)
    assert result.exit_code == 0
    assert result.stdout.startswith("accepted: 2026-06-01T12:00:00Z\n")
    assert "revocation           unknown" in result.stdout


def test_accepted_as_json(folder: Path) -> None:
    result = verify(folder, "good.tsr", "--request", folder / "good.tsq", "--json")
    value = json.loads(result.stdout)
    assert (result.exit_code, value["result"]) == (0, "accepted")
    assert value["gen_time"] == "2026-06-01T12:00:00Z"
    assert (value["earliest"], value["latest"]) == ("2026-06-01T11:59:59Z", "2026-06-01T12:00:01Z")
    assert value["accuracy_seconds"] == 1.0
    assert value["nonce_checked"] is True
    assert value["policy"] == forge.POLICY
    assert (value["key_algorithm"], value["signature_algorithm"]) == ("p256", "ecdsa-sha256")
    assert (
        verify(folder, "good.tsr", "--json").stdout == verify(folder, "good.tsr", "--json").stdout
    )


def test_from_standard_input(folder: Path) -> None:
    args = ("verify", "-", "--message", folder / "message", "--root", folder / "root.pem")
    assert cli(*args, stdin=RESPONSE).exit_code == 0


def test_a_bare_token_is_taken_only_when_it_is_said(folder: Path) -> None:
    assert verify(folder, "good.tst", "--token").exit_code == 0
    assert cause(verify(folder, "good.tst", "--json")) == "der"
    assert verify(folder, "good.tsr", "--token").exit_code == 1


def test_a_file_of_the_other_kind_is_answered_with_a_hint(folder: Path) -> None:
    for as_json in ((), ("--json",)):
        bare = verify(folder, "good.tst", *as_json)
        assert bare.exit_code == 1
        assert "a bare token, without the response around it: add --token" in bare.stdout
        whole = verify(folder, "good.tsr", "--token", *as_json)
        assert whole.exit_code == 1
        assert "a response and no bare token: leave out --token" in whole.stdout
        for name in ("message", "rejected.tsr", "long.tsr"):
            assert "--token" not in verify(folder, name, *as_json).stdout


def test_what_is_printed_holds_nothing_that_a_terminal_obeys(folder: Path) -> None:
    evil = "\x1b[2J\x9b31m\u202e\u2066\u200f"
    words = forge.response(None, forge.status_info(2, [forge.text(evil)]))
    (folder / "evil.tsr").write_bytes(words)
    for more in ((), ("--json",)):
        for result in (
            verify(folder, "evil.tsr", *more),
            cli("inspect", folder / "evil.tsr", *more),
        ):
            assert not {"\x1b", "\x9b", "\u202e", "\u2066", "\u200f"} & set(result.stdout)
            assert "31m" in result.stdout
    value = json.loads(cli("inspect", folder / "evil.tsr", "--json").stdout)
    assert value["status_text"] == [evil]


def test_certificates_that_the_response_leaves_out(folder: Path) -> None:
    assert cause(verify(folder, "bare.tsr", "--json")) == "no_signer_certificate"
    assert verify(folder, "bare.tsr", "--intermediate", folder / "chain.pem").exit_code == 0


@pytest.mark.parametrize(
    ("args", "expected"),
    named(
        {
            "another root": (("good.tsr",), "chain"),
            "a rejection": (("rejected.tsr",), "bad_alg"),
            "no response": (("message",), "der"),
            "too long": (("long.tsr",), "too_large"),
            "another policy": (("good.tsr", "--policy", "1.2.3.4"), "policy"),
        }
    ),
)
def test_refused_with_its_cause(folder: Path, args: tuple[str, ...], expected: str) -> None:
    root = "beta.pem" if expected == "chain" else "root.pem"
    result = verify(folder, *args, "--json", root=root)
    assert cause(result) == expected
    text = verify(folder, *args, root=root)
    assert text.exit_code == 1
    assert text.stdout.startswith(f"refused: {expected}\n")


def test_one_of_several_policies_and_roots(folder: Path) -> None:
    more = ("--policy", "1.2.3.4", "--policy", forge.POLICY, "--root", folder / "beta.pem")
    assert verify(folder, "good.tsr", *more).exit_code == 0


def test_another_message(folder: Path) -> None:
    args = ("verify", folder / "good.tsr", "--message", folder / "other")
    assert cause(cli(*args, "--root", folder / "root.pem", "--json")) == "imprint"


@pytest.mark.parametrize(
    ("asked", "expected"),
    named(
        {
            "another nonce": ({"nonce": 7}, "nonce"),
            "another message": ({"imprint": bytes(32)}, "imprint"),
            "another hash": ({"imprint": bytes(64), "hash_algorithm": "sha512"}, "imprint"),
            "another policy": ({"policy": "1.2.3.4"}, "policy"),
            "no nonce": ({"nonce": None}, None),
            "its policy": ({"policy": forge.POLICY}, None),
            "no certificates": ({"cert_req": False}, None),
        }
    ),
)
def test_the_request_must_be_the_one_that_was_answered(
    folder: Path, asked: dict[str, Any], expected: str | None
) -> None:
    path = folder / "asked.tsq"
    path.write_bytes(ALPHA.answer(MESSAGE, AT, asked=asked)[0])
    result = verify(folder, "good.tsr", "--request", path, "--json")
    if expected is None:
        assert result.exit_code == 0
        assert json.loads(result.stdout)["nonce_checked"] is (asked.get("nonce", 1) is not None)
    else:
        assert cause(result) == expected


def asking(
    *, version: int = 1, imprint: bytes = forge.imprint(MESSAGE), more: bytes = b""
) -> bytes:
    """A request of any form, asking for what was answered."""
    nonce = int.from_bytes(REQUEST[-19:-3], "big")
    return forge.seq(forge.integer(version), imprint, forge.integer(nonce), more)


def test_a_request_as_openssl_writes_it(folder: Path) -> None:
    path = folder / "theirs.tsq"
    for more in (b"", forge.boolean(True)):
        path.write_bytes(asking(more=more))
        result = verify(folder, "good.tsr", "--request", path, "--json")
        assert json.loads(result.stdout)["nonce_checked"] is True


REQUESTS = {
    "another version": asking(version=9),
    "SHA-3": asking(
        imprint=forge.seq(forge.algorithm("2.16.840.1.101.3.4.2.8"), forge.octets(bytes(32)))
    ),
    "SHA-1": asking(imprint=forge.seq(forge.algorithm("sha1"), forge.octets(bytes(20)))),
    "an imprint of another length": asking(
        imprint=forge.seq(forge.algorithm("sha256"), forge.octets(bytes(33)))
    ),
    "more in the imprint": asking(imprint=forge.imprint(MESSAGE)[:-32] + MESSAGE),
    "two members too many in the imprint": asking(
        imprint=forge.seq(
            forge.algorithm("sha256"), forge.octets(bytes(32)), forge.NULL, forge.NULL
        )
    ),
    "a hash without parameters": asking(imprint=forge.imprint(MESSAGE, parameters=b"")),
    "FALSE written out": asking(more=forge.boolean(False)),
    "an extension": asking(more=forge.tlv(0xA0, forge.extension("1.2.3", b"x"))),
    "members nobody knows": asking(more=forge.NULL + forge.NULL),
    "bytes behind it": REQUEST + b"\0",
    "cut short": REQUEST[:-1],
    "nothing": b"",
    "a response": RESPONSE,
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_request_that_is_not_understood_whole_is_refused(folder: Path, request_: bytes) -> None:
    """Else what it asks for beyond what is read would seem to have been answered."""
    path = folder / "theirs.tsq"
    path.write_bytes(request_)
    result = verify(folder, "good.tsr", "--request", path, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path} is no RFC 3161 request that can be held against it: " in result.stderr
    assert result.stderr.count("\n") == 1


def crls(folder: Path, name: str) -> tuple[object, ...]:
    return ("--crl", folder / f"{name}-0.crl", "--crl", folder / f"{name}-1.crl")


def test_revocation_lists(folder: Path) -> None:
    good = verify(folder, "good.tsr", *crls(folder, "good"), "--json")
    assert json.loads(good.stdout)["revocation"] == "good"
    retired = verify(folder, "good.tsr", *crls(folder, "retired"), "--json")
    assert json.loads(retired.stdout)["revocation"] == "good, revoked later"
    assert json.loads(retired.stdout)["warnings"] == ["revoked_later"]
    assert cause(verify(folder, "good.tsr", *crls(folder, "void"), "--json")) == "revoked"


@pytest.mark.parametrize(
    ("args", "words"),
    named(
        {
            "no root": (("verify", "good.tsr", "--message", "message"), "--root"),
            "no message": (("verify", "good.tsr", "--root", "root.pem"), "--message"),
            "no response": (
                ("verify", "x.tsr", "--message", "message", "--root", "root.pem"),
                "cannot read the response",
            ),
            "no such message": (
                ("verify", "good.tsr", "--message", "x", "--root", "root.pem"),
                "cannot read the message",
            ),
            "no such root": (
                ("verify", "good.tsr", "--message", "message", "--root", "x.pem"),
                "--root x.pem: cannot read",
            ),
            "a root that is none": (
                ("verify", "good.tsr", "--message", "message", "--root", "message"),
                "--root message: no certificate",
            ),
            "a list that is none": (
                (
                    *("verify", "good.tsr", "--message", "message", "--root", "root.pem"),
                    *("--crl", "root.pem"),
                ),
                "CERTIFICATE among the revocation lists",
            ),
            "a policy that is none": (
                (
                    *("verify", "good.tsr", "--message", "message", "--root", "root.pem"),
                    *("--policy", "any"),
                ),
                "--policy expects an object identifier",
            ),
            "standard input for two": (
                ("verify", "-", "--message", "-", "--root", "root.pem"),
                "- is the standard input, which is read once: not for RESPONSE and --message",
            ),
            "standard input for three": (
                ("verify", "-", "--message", "-", "--root", "root.pem", "--request", "-"),
                "not for RESPONSE and --message and --request",
            ),
            "a request that is none": (
                (
                    *("verify", "good.tsr", "--message", "message", "--root", "root.pem"),
                    *("--request", "message"),
                ),
                "message is no RFC 3161 request",
            ),
            "nothing to inspect": (("inspect", "x.tsr"), "cannot read the response"),
            "no response to inspect": (("inspect", "message"), "no RFC 3161 response"),
            "an unknown command": (("vrify",), "verify"),
        }
    ),
)
def test_misuse(
    folder: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(folder)
    result = cli(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("receiptledger: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_inspect(folder: Path) -> None:
    result = cli("inspect", folder / "good.tsr")
    assert result.exit_code == 0
    assert "2026-06-01T12:00:00" in result.stdout
    assert "Nothing here was verified" in result.stdout
    value = json.loads(cli("inspect", folder / "good.tsr", "--json").stdout)
    assert value["verified"] is False
    assert value["status"] == "granted"
    assert value["token"]["info"]["policy"] == forge.POLICY
    token = json.loads(cli("inspect", "-", "--json", stdin=token_of(RESPONSE)).stdout)
    assert token["kind"] == "token"
    rejected = json.loads(cli("inspect", folder / "rejected.tsr", "--json").stdout)
    assert rejected["token"] is None


def test_every_vector_through_the_command(vectors: Path, tmp_path: Path) -> None:
    """The rows that a verifier must accept or refuse, from the files as they are."""
    base = vectors / "rfc3161"
    rows = json.loads((base / "manifest.json").read_bytes())["vectors"]
    seen = set()
    for row in rows:
        if row["expect"] not in ("accept", "reject"):
            continue  # a decision or a clock: see the tests of the verifier
        args: list[object] = ["verify", base / row["file"], "--message", base / row["message"]]
        for option, names in (("--root", row["roots"]), ("--intermediate", row["intermediates"])):
            for name in names:
                args += [option, base / "pki" / f"{name}.pem"]
        for name in row.get("crls") or ():
            args += ["--crl", base / name]
        args += ["--policy", row["policy"]] if row["policy"] else []
        args += ["--request", base / row["request"]] if row["request"] and row["nonce"] else []
        result = cli(*args)
        assert result.exit_code == (0 if row["expect"] == "accept" else 1), (row, result.output)
        seen.add(row["expect"])
    assert seen == {"accept", "reject"}
