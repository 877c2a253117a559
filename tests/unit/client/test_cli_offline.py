"""The command without a ledger: keys, verifying, inspecting, and every way to misuse it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner, Result

from receiptledger.cli.app import app
from receiptledger.cli.frame import _code
from receiptledger.cli.output import printable
from receiptledger.core.bundle import MAX_BUNDLE_BYTES
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.verdict import LIMITS_OF_PROOF
from receiptledger.core.verify import Trust
from receiptledger.signer import load_signer
from receiptledger.trust import format_trust
from tests.helpers.ledger_kit import MiniLedger, agent_key, make_receipts

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "127.0.0.1:1"  # nothing listens there


def cli(*args: object, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
    """Run the command; a traceback fails the test."""
    result = CliRunner().invoke(app, [str(a) for a in args], input=stdin, env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def misused(result: Result, *parts: str) -> None:
    """One line on the error stream that says what to do, nothing else, exit 2."""
    assert result.exit_code == 2, (result.output, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("receiptledger: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


class Evidence:
    """A bundle of the middle receipt of three, and the files around it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = MiniLedger()
        self.ledger.append(make_receipts(1, "other"))
        self.ledger.seal()
        self.old = self.file("old.checkpoint", self.ledger.note())
        self.raws = make_receipts(3)
        self.ledger.append(self.raws)
        self.ledger.seal()
        self.bundle = self.ledger.bundle_of(self.raws[1], since=2)
        self.path = self.file("bundle.json", self.bundle.encode())
        self.key = ("--log-key", self.ledger.vkey)
        self.agent = f"agent-1={base64url_encode(agent_key('agent-1').public_key)}"

    def file(self, name: str, data: bytes | str) -> Path:
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path)


# The frame.


def test_version() -> None:
    assert cli("--version").stdout == "0.1.0\n"


def test_help_lists_every_command() -> None:
    text = cli("--help").stdout
    for name in ("keygen", "record", "submit", "head", "prove", "verify", "inspect", "watch"):
        assert name in text


def test_without_arguments_it_helps() -> None:
    result = cli()
    assert "Usage: receiptledger" in result.output
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["submti"], ["Did you mean 'submit'?", "receiptledger --help"]),
        (["verify"], ["Missing argument 'BUNDLE'", "receiptledger verify --help"]),
        (["verify", "x", "--log-kye", "y"], ["No such option", "receiptledger verify --help"]),
        (["watch", "--count", "0"], ["--count", "receiptledger watch --help"]),
        (["record", "--ack", "maybe"], ["receiptledger record --help"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_misuse_is_one_line(args: list[str], parts: list[str]) -> None:
    misused(cli(*args), *parts)


def test_the_installed_command_runs(evidence: Evidence) -> None:
    """As a process: exit codes and streams are the real ones, and gRPC is never loaded."""
    code = (
        "import sys; from receiptledger.cli import main\n"
        "try: main()\n"
        "finally: print('grpc' in sys.modules, 'google.protobuf' in sys.modules, file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "verify", str(evidence.path), *evidence.key],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == "False False\n"
    assert process.stdout.endswith(LIMITS_OF_PROOF + "\n")
    assert "\x1b" not in process.stdout


def test_a_closed_pipe_is_no_traceback(evidence: Evidence) -> None:
    """`receiptledger ... | head -1`."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from receiptledger.cli import main; main()", "inspect",
         str(evidence.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors


def test_printable() -> None:
    assert printable("plain text") == "plain text"
    assert printable("Grüße, 世界") == "Grüße, 世界"
    assert printable("a\x1b[31m\n\u202e\x9b\ud800\U000e0001") == (
        "a\\u001b[31m\\u000a\\u202e\\u009b\\ud800\\U000e0001"
    )


def test_what_is_no_fault_of_the_user_is_not_hidden() -> None:
    assert _code(RuntimeError("a bug")) is None
    assert _code(typer.Abort()) == 130


def test_help_instead_of_a_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    """How some versions of click say that a command was called without arguments."""

    class NoArgsIsHelpError(typer.BadParameter):
        def format_message(self) -> str:
            return "Usage:\nall of it"

    assert _code(NoArgsIsHelpError("")) == 2
    assert capsys.readouterr().err == "Usage:\nall of it\n"
    assert _code(typer.BadParameter("no")) == 2
    assert capsys.readouterr().err.endswith("See `receiptledger --help`\n")


# keygen


def test_keygen(tmp_path: Path) -> None:
    path = tmp_path / "agent.key"
    result = cli("keygen", "-o", path)
    assert result.exit_code == 0
    key = base64url_encode(load_signer(path).public_key)
    assert key in result.stdout
    assert (tmp_path / "agent.key.pub").read_text() == key + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    misused(cli("keygen", "-o", path), "never overwritten")
    assert path.read_bytes() == before


def test_keygen_json(tmp_path: Path) -> None:
    path = tmp_path / "k"
    value = json.loads(cli("keygen", "-o", path, "--json").stdout)
    assert value == {
        "file": str(path),
        "public_key_file": f"{path}.pub",
        "public_key": base64url_encode(load_signer(path).public_key),
    }


def test_keygen_never_overwrites_a_secret_key(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("precious")
    misused(cli("keygen", "-o", tmp_path / "k"), "never overwritten")
    assert not (tmp_path / "k.pub").exists()
    misused(cli("keygen", "-o", tmp_path / "missing" / "k"), "cannot create the key file")
    (tmp_path / "j.pub").symlink_to(tmp_path / "missing" / "j.pub")
    result = cli("keygen", "-o", tmp_path / "j")
    misused(
        result, "the key was made, but", base64url_encode(load_signer(tmp_path / "j").public_key)
    )


# verify


def test_verify_good(evidence: Evidence) -> None:
    result = cli("verify", evidence.path, *evidence.key)
    assert result.exit_code == 0, result.output
    lines = result.stdout.split("\n")
    assert lines[0] == f"receipt {digest_text(sha256(evidence.raws[1]).digest())}"
    assert lines[1] == "position 1 of agent-1"
    checks = [
        line[:34].split("  ")[0] for line in lines if line.startswith(("pass", "not checked"))
    ]
    assert len(checks) == 11
    assert "result: valid" in lines
    assert lines[-2] == LIMITS_OF_PROOF
    assert "\x1b" not in result.stdout


def test_verify_reads_standard_input(evidence: Evidence) -> None:
    data = evidence.path.read_bytes()
    assert cli("verify", "-", *evidence.key, stdin=data).exit_code == 0


def test_verify_json_is_one_document_and_the_same_each_time(evidence: Evidence) -> None:
    result = cli("verify", evidence.path, *evidence.key, "--json")
    value = json.loads(result.stdout)
    assert (value["result"], value["exit_code"]) == ("valid", 0)
    assert value["facts"]["agent"] == "agent-1"
    assert value["not_proven"] == LIMITS_OF_PROOF
    assert cli("verify", evidence.path, *evidence.key, "--json").stdout == result.stdout


def test_verify_remembers(evidence: Evidence) -> None:
    result = cli("verify", evidence.path, *evidence.key, "--remembered", evidence.old, "--json")
    assert result.exit_code == 0
    checks = {c["name"]: c["status"] for c in json.loads(result.stdout)["checks"]}
    assert checks["consistency"] == "pass"


def test_verify_against_another_history(evidence: Evidence, tmp_path: Path) -> None:
    other = MiniLedger()
    other.append(make_receipts(1, "somebody else"))
    other.seal()
    split = evidence.file("split.checkpoint", other.note())
    result = cli("verify", evidence.path, *evidence.key, "--remembered", split)
    assert result.exit_code == 1
    assert "fail" in result.stdout


def test_verify_below_policy(evidence: Evidence) -> None:
    result = cli("verify", evidence.path, *evidence.key, "--require", "agent-key")
    assert result.exit_code == 3
    assert "asked for and not shown: agent-key" in result.stdout
    good = ("--agent-key", evidence.agent)
    assert (
        cli("verify", evidence.path, *evidence.key, "--require", "agent-key", *good).exit_code == 0
    )
    bad = ("--agent-key", f"agent-1={base64url_encode(bytes(32))}")
    assert cli("verify", evidence.path, *evidence.key, *bad).exit_code == 1


def test_verify_with_a_trust_file(evidence: Evidence) -> None:
    trust = Trust(
        (evidence.ledger.signer.verifier,),
        {"agent-1": (agent_key("agent-1").public_key,)},
        None,
        frozenset({"agent-key", "remembered"}),
    )
    path = evidence.file("trust.toml", format_trust(trust))
    assert cli("verify", evidence.path, "--trust", path).exit_code == 3
    assert (
        cli("verify", evidence.path, "--trust", path, "--remembered", evidence.old).exit_code == 0
    )
    path.write_text("nonsense")
    misused(cli("verify", evidence.path, "--trust", path), "is not TOML")


def test_verify_takes_keys_from_the_environment(evidence: Evidence) -> None:
    env = {"RECEIPTLEDGER_LOG_KEY": evidence.ledger.vkey}
    assert cli("verify", evidence.path, env=env).exit_code == 0


def test_every_changed_byte_of_a_bundle_is_noticed(evidence: Evidence) -> None:
    """In the process itself, for speed; each result is an exit code and never an exception."""
    data = evidence.path.read_bytes()
    for index in range(0, len(data), 41):
        bad = bytearray(data)
        bad[index] ^= 1
        result = cli("verify", "-", *evidence.key, stdin=bytes(bad))
        # The one thing that may change unnoticed is a proof the auditor did not ask to see.
        consistency = data.index(b'"consistency"') <= index < data.index(b'"head":{"index"')
        assert result.exit_code in ((0, 1, 2) if consistency else (1, 2)), index
        assert "Traceback" not in result.output


def test_verify_tampered_receipt(evidence: Evidence) -> None:
    data = evidence.path.read_bytes().replace(b"search", b"delete")
    result = cli("verify", "-", *evidence.key, stdin=data)
    assert result.exit_code == 1
    assert "result: invalid" in result.stdout
    assert LIMITS_OF_PROOF in result.stdout


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}\n", b"not json", b"\xff" * 100, b"[" * 100_000, b'{"type":7}\n']
)
def test_verify_unreadable(evidence: Evidence, data: bytes) -> None:
    result = cli("verify", "-", *evidence.key, stdin=data)
    assert result.exit_code == 2
    assert "result: unreadable" in result.stdout
    as_json = cli("verify", "-", *evidence.key, "--json", stdin=data)
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["result"] == "unreadable"


def test_verify_the_wrong_log(evidence: Evidence) -> None:
    other = MiniLedger("other.example/log")
    assert cli("verify", evidence.path, "--log-key", other.vkey).exit_code == 1


def test_verify_takes_the_log_key_from_a_file(evidence: Evidence) -> None:
    key = evidence.file("log.vkey", evidence.ledger.vkey + "\n")
    assert cli("verify", evidence.path, "--log-key", key).exit_code == 0
    bad = evidence.file("bad.vkey", "nonsense\n")
    misused(cli("verify", evidence.path, "--log-key", bad), "bad.vkey", "holds no log key")
    misused(cli("verify", evidence.path, "--log-key", "x" * 5_000), "is no log key and no file")


def test_verify_misused(evidence: Evidence) -> None:
    path, key = evidence.path, evidence.key
    misused(cli("verify", path), "no log key", "--log-key", "--trust")
    misused(cli("verify", path, "--log-key", "nonsense"), "'nonsense' is no log key")
    misused(cli("verify", evidence.folder / "missing", *key), "cannot read the bundle", "No such")
    misused(cli("verify", evidence.folder, *key), "cannot read the bundle")
    misused(cli("verify", path, *key, "--agent-key", "nonsense"), "AGENT=KEY")
    misused(cli("verify", path, *key, "--agent-key", "=x"), "AGENT=KEY")
    misused(
        cli("verify", path, *key, "--agent-key", "a=b=short"), "--agent-key a=b", "no public key"
    )
    misused(cli("verify", path, *key, "--require", "magic"), "'magic'", "agent-key")
    misused(cli("verify", path, *key, "--trust", evidence.folder / "no"), "cannot read the trust")
    misused(cli("verify", path, *key, "--remembered", path), "is no checkpoint of a log you trust")
    evidence.file("long", b"x" * (MAX_BUNDLE_BYTES + 1))
    misused(cli("verify", evidence.folder / "long", *key), "too long for a bundle")


def test_a_message_cannot_drive_the_terminal(evidence: Evidence) -> None:
    misused(cli("verify", "\x1b]0;evil\x07", *evidence.key), "\\u001b]0;evil\\u0007")


# inspect


def test_inspect_a_bundle(evidence: Evidence) -> None:
    result = cli("inspect", evidence.path)
    assert result.exit_code == 0
    assert "Nothing here was verified" in result.stdout
    value = json.loads(cli("inspect", evidence.path, "--json").stdout)
    assert (value["kind"], value["verified"], value["position"]) == ("bundle", False, 1)
    assert value["receipt"]["agent"] == "agent-1"
    assert value["receipt"]["profile"] == "ms-lesson18 or ms-lesson18-prehash"
    assert value["receipt"]["content"] == json.loads(evidence.raws[1])
    assert value["previous"]["sequence"] == 0
    assert (value["head"]["leaf"], value["key"]["leaf"]) == ("head", "key")
    assert value["checkpoint"]["tree_size"] == 4
    assert value["consistency"] == {"from_size": 2, "proof_hashes": 1}


def test_inspect_a_bundle_without_extras(evidence: Evidence) -> None:
    first = evidence.ledger.bundle_of(evidence.raws[0])
    value = json.loads(cli("inspect", "-", "--json", stdin=first.encode()).stdout)
    assert value["previous"] is None
    assert "consistency" not in value
    assert "previous" in cli("inspect", "-", stdin=first.encode()).stdout


def test_inspect_the_other_kinds(evidence: Evidence) -> None:
    for data, kind, member, wanted in [
        (evidence.ledger.note(), "checkpoint", "tree_size", 4),
        (evidence.ledger.leaves[0], "leaf", "leaf", "key"),
        (evidence.ledger.leaves[3] + b"\n", "leaf", "leaf", "head"),
        (evidence.raws[2], "receipt", "sequence", 2),
        (evidence.raws[2] + b"\n", "receipt", "sequence", 2),
    ]:
        value = json.loads(cli("inspect", "-", "--json", stdin=data).stdout)
        assert (value["kind"], value[member]) == (kind, wanted)
        assert cli("inspect", "-", stdin=data).exit_code == 0


def test_inspect_obeys_no_control_characters(evidence: Evidence) -> None:
    raw = evidence.raws[0].replace(b'"search"', b'"\\u001b[31m\xe2\x80\xae"')
    result = cli("inspect", "-", stdin=raw)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout


def test_inspect_what_cannot_be_read(evidence: Evidence) -> None:
    misused(cli("inspect", "-", stdin=b"hello"), "no bundle, checkpoint, log leaf or receipt")
    bundle = evidence.path.read_bytes()
    misused(cli("inspect", "-", stdin=bundle[:-1]), "no bundle that can be read")
    misused(cli("inspect", "-", stdin=evidence.ledger.note()[:-1]), "no checkpoint that can be")
    misused(cli("inspect", "-", stdin=evidence.ledger.leaves[0][:-1]), "no leaf that can be read")
    misused(cli("inspect", "-", stdin=evidence.raws[0][:-1]), "no receipt that can be read")
    misused(cli("inspect", evidence.folder / "missing"), "cannot read the file")


# What needs a ledger, before or without reaching one.


def test_nobody_there(evidence: Evidence, tmp_path: Path) -> None:
    cli("keygen", "-o", tmp_path / "k")
    result = cli("head", "a", "--ledger", NOWHERE)
    misused(result, "cannot reach a ledger at 127.0.0.1:1", "is ledgerd running there")
    prove = cli("prove", "--agent", "a", "--position", 0, *evidence.key, "--ledger", NOWHERE)
    misused(prove, "cannot reach")


def test_the_address_comes_from_the_environment() -> None:
    misused(cli("head", "a", env={"RECEIPTLEDGER_ADDRESS": NOWHERE}), NOWHERE)


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "http://127.0.0.1:7070", "a b:1", "::1:7070", "h:0", "h:65536", "h:\uff17"],
)
def test_bad_addresses(address: str) -> None:
    misused(cli("head", "a", "--ledger", address), "not an address", "HOST:PORT")


def test_prove_misused(evidence: Evidence) -> None:
    digest, key = "sha256:" + "0" * 64, evidence.key
    for args in (
        [],
        ["--agent", "a"],
        ["--position", 0],
        ["--hash", digest, "--agent", "a", "--position", 0],
        ["--hash", digest, "--position", 0],
    ):
        misused(cli("prove", *args, *key), "select one receipt")
    misused(cli("prove", "--hash", "12", *key), "no receipt hash")
    misused(cli("prove", "--hash", digest), "no log key")
    other = MiniLedger("other.example/log").vkey
    misused(cli("prove", "--hash", digest, *key, "--log-key", other), "several log keys")
    misused(
        cli("prove", "--hash", digest, *key, "--since", "missing"), "cannot read the checkpoint"
    )
    misused(cli("watch"), "no log key")


def test_record_misused(tmp_path: Path) -> None:
    call = ("record", "--agent", "a", "--tool", "t", "--policy", "p", "--key-file")
    misused(cli(*call, tmp_path / "k"), "there is no key file", "receiptledger keygen -o")
    cli("keygen", "-o", tmp_path / "k")
    misused(cli(*call, tmp_path / "k", "--args", "{"), "--args is not JSON")
    misused(cli(*call, tmp_path / "k", "--result", "text"), "--result is not JSON", "quotes")
    (tmp_path / "k").chmod(0o644)
    misused(cli(*call, tmp_path / "k"), "chmod 600")


def test_submit_misused(tmp_path: Path) -> None:
    misused(cli("submit", tmp_path / "missing"), "cannot read")
    (tmp_path / "doc").write_text("{")
    misused(cli("submit", tmp_path / "doc", "--array"), "neither one JSON object")
    keys = tmp_path / "keys"
    for text, part in [
        ("", "0 public keys: the ledger takes 1 to 16"),
        ("nonsense\n", "line 1: no public key"),
        ((base64url_encode(bytes(32)) + "\n") * 17, "17 public keys"),
    ]:
        keys.write_text(text)
        misused(cli("submit", tmp_path / "doc", "--key", keys), part)
    cli("keygen", "-o", tmp_path / "k")
    misused(cli("submit", tmp_path / "doc", "--key", tmp_path / "k"), "secret key file", "k.pub")
