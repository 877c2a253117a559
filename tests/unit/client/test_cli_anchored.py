"""`receiptledger verify` on a bundle with timestamps: what people read, and what they can run instead."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from receiptledger.certificates import to_pem
from receiptledger.cli.app import app
from receiptledger.cli.openssl import extract, openssl_lines
from receiptledger.core.revocation import RevocationEvidence
from receiptledger.trust import format_trust
from tests.helpers.anchored import AFTER, ALPHA, BEFORE, BETA, AnchoredWorld
from tests.helpers.authority import Authority
from tests.helpers.cases import named

RSA = Authority("rsa", kind="rsa3072")
EDWARDS = Authority("edwards", kind="ed25519")
NOW = "2026-12-01T00:00:00Z"
UPPER, LOWER = "2026-11-30T10:10:01Z", "2026-11-30T09:49:59Z"


def cli(*args: object) -> Result:
    """Run the command; a traceback fails the test."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Files:
    """A bundle in a folder, and the auditor's roots."""

    def __init__(self, folder: Path, world: AnchoredWorld, *authorities: Authority) -> None:
        self.folder, self.world = folder, world
        self.bundle = folder / "bundle.json"
        self.bundle.write_bytes(world.bundle().encode())
        self.roots: list[str] = []
        for one in authorities:
            (folder / f"{one.name}.pem").write_bytes(to_pem((one.root.der,)))
            self.roots += ["--tsa-root", f"{one.name}={folder / one.name}.pem"]

    def verify(self, *more: object, at: str | None = NOW) -> Result:
        key = ("--log-key", self.world.log.signer.verifier)
        moment = () if at is None else ("--at", at)
        return cli("verify", self.bundle, *key, *self.roots, *moment, *more)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, AnchoredWorld.made(ALPHA, BETA), ALPHA, BETA)


def openssl(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the report in a shell, as an auditor would."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here: the printed lines were not run")
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def lines_of(result: Result) -> list[str]:
    """The printed lines, without the one that goes to the folder."""
    shown = [line.strip() for line in result.stdout.splitlines() if line.startswith("  ")]
    return [line for line in shown if not line.startswith("cd ")]


def test_what_people_read(files: Files) -> None:
    result = files.verify()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert f"existed no later than {UPPER} (alpha, beta)" in lines
    assert f"appended no earlier than {LOWER} (alpha, beta)" in lines
    assert "timestamps judged as of 2026-12-01T00:00:00Z; to check them without us:" in lines
    assert "(in a folder DIR written with --extract-anchors DIR)" in lines
    printed = lines_of(result)
    assert len(printed) == 2
    assert printed[0] == (
        "openssl ts -verify -in anchor-4.tsr -data checkpoint-4.note -CAfile anchor-4-root.pem "
        f"-untrusted anchor-4-chain.pem -attime {int(AFTER.timestamp())}"
    )


def test_json_is_the_same_each_time(files: Files) -> None:
    first = files.verify("--json")
    value = json.loads(first.stdout)
    assert value["facts"]["not_after"] == UPPER
    assert value["facts"]["state"] == "anchored"
    assert len(value["timestamps"]) == 4
    # Not even the moment is in it, as long as it changes nothing.
    assert files.verify("--json", at=None).stdout == first.stdout


@pytest.mark.parametrize(
    "authorities",
    named({"P-256": ((ALPHA, BETA),), "RSA-3072": ((RSA,),)}),
)
def test_the_printed_lines_run(tmp_path: Path, authorities: tuple[Authority, ...]) -> None:
    """OpenSSL alone, offline, comes to the same result."""
    files = Files(tmp_path, AnchoredWorld.made(*authorities), *authorities)
    out = tmp_path / "a folder, with a comma"
    result = files.verify("--extract-anchors", out)
    printed = lines_of(result)
    assert len(printed) == len(authorities)
    for line in printed:
        ran = openssl(line, out)
        assert ran.returncode == 0, (line, ran.stderr)
        assert "Verification: OK" in ran.stdout
        assert "Warning" not in ran.stderr
    assert lines_of(files.verify()) == printed
    # The whole block, pasted as it is.
    block = "\n".join(line.strip() for line in result.stdout.splitlines() if line.startswith("  "))
    assert block.startswith("cd '")
    assert openssl(block, tmp_path).stdout.count("Verification: OK") == len(printed)


def test_the_printed_lines_fail_when_the_evidence_is_false(files: Files) -> None:
    out = files.folder / "out"
    (line, _) = lines_of(files.verify("--extract-anchors", out))
    note = out / "checkpoint-4.note"
    whole = note.read_bytes()
    note.write_bytes(whole.replace(b"\n4\n", b"\n5\n"))
    assert openssl(line, out).returncode != 0
    note.write_bytes(whole)
    (out / "anchor-4-root.pem").write_bytes(to_pem((BETA.root.der,)))
    assert openssl(line, out).returncode != 0


def test_a_response_without_its_certificate_is_extracted_with_it(tmp_path: Path) -> None:
    world = AnchoredWorld.empty()
    world.seal()
    world.stamp(AFTER, ALPHA, certificates=False)
    trust = replace(ALPHA.trust, intermediates=(ALPHA.tsa.der, ALPHA.ca.der))
    verdict = world.verify(trust=replace(world.trust(), tsas=(trust,)))
    assert extract(verdict.anchoring, tmp_path) == 1
    (line,) = openssl_lines(verdict.anchoring)
    ran = openssl(line, tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_an_anchor_of_trust_that_is_no_root(tmp_path: Path) -> None:
    """The auditor may trust an issuing CA alone; OpenSSL has to be told that this is enough."""
    world = AnchoredWorld.made(ALPHA)
    trust = replace(ALPHA.trust, roots=(ALPHA.ca.der,))
    verdict = world.verify(trust=replace(world.trust(), tsas=(trust,)))
    assert extract(verdict.anchoring, tmp_path) == 2
    (line,) = openssl_lines(verdict.anchoring)
    assert line.endswith("-partial_chain")
    assert "-untrusted" not in line
    ran = openssl(line, tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_what_openssl_cannot_read_is_said(tmp_path: Path) -> None:
    files = Files(tmp_path, AnchoredWorld.made(EDWARDS), EDWARDS)
    result = files.verify()
    assert result.exit_code == 0
    assert lines_of(result) == [
        "# anchor-3: not for `openssl ts`: it cannot read ed25519 signatures"
    ]


def test_extracted_files(files: Files) -> None:
    out = files.folder / "new" / "folder"
    assert files.verify("--extract-anchors", out, "--json").exit_code == 0
    names = {path.name for path in out.iterdir()}
    assert names == {
        *(f"checkpoint-{size}.note" for size in (1, 4)),
        *(f"anchor-{at}.tsr" for at in (1, 2, 4, 5)),
        *(f"anchor-{at}.tsq" for at in (1, 2, 4, 5)),
        *(f"anchor-{at}-root.pem" for at in (1, 2, 4, 5)),
        *(f"anchor-{at}-chain.pem" for at in (1, 2, 4, 5)),
    }
    stamp = files.world.stamps[2]
    assert (out / "checkpoint-4.note").read_bytes() == stamp.note
    assert (out / "anchor-4.tsr").read_bytes() == stamp.response
    assert (out / "anchor-4.tsq").read_bytes() == stamp.request
    assert (out / "anchor-4-root.pem").read_bytes() == to_pem((ALPHA.root.der,))
    checked = cli(
        *("timestamp", "verify", out / "anchor-4.tsr", "--request", out / "anchor-4.tsq"),
        *("--message", out / "checkpoint-4.note", "--root", out / "anchor-4-root.pem"),
    )
    assert checked.exit_code == 0


def test_only_what_was_verified_is_extracted(files: Files) -> None:
    out = files.folder / "out"
    files.roots = files.roots[2:]
    assert files.verify("--extract-anchors", out).exit_code == 0
    assert {path.name for path in out.glob("*.tsr")} == {"anchor-2.tsr", "anchor-5.tsr"}
    assert extract(None, out) == 0
    assert openssl_lines(None) == []


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_nothing_to_extract_is_said(files: Files, as_json: tuple[str, ...]) -> None:
    """Without authorities nothing is verified; a folder that stays empty would look like a fault."""
    files.roots = []
    out = files.folder / "out"
    result = files.verify("--extract-anchors", out, *as_json)
    assert result.exit_code == 0
    assert result.stderr == (
        "receiptledger: nothing to extract: the bundle has no timestamp by an authority you named\n"
    )
    assert not out.exists()
    if as_json:
        assert json.loads(result.stdout)["result"] == "valid"


def test_a_folder_that_cannot_be_written(files: Files) -> None:
    result = files.verify("--extract-anchors", files.bundle)
    assert result.exit_code == 2
    assert "cannot write into" in result.stderr


def test_without_roots_nothing_is_verified_and_nothing_printed(files: Files) -> None:
    files.roots = []
    result = files.verify()
    assert result.exit_code == 0
    assert "4 tokens, not verified: no timestamp authority given" in result.stdout
    assert "openssl" not in result.stdout
    assert files.verify("--require", "anchor").exit_code == 3


def test_expired_and_not_renewed(files: Files) -> None:
    for at in ("2036-01-02T00:00:00Z", "2036-01-02T00:00:00.5+02:00"):
        result = files.verify(at=at)
        assert result.exit_code == 3
        assert "expired, not renewed timestamps" in result.stdout
        assert "result: valid, but a timestamp expired and was not renewed" in result.stdout
        assert "existed no later than" not in result.stdout
    assert len(lines_of(result)) == 2  # what it said then can still be checked


def test_now_is_the_moment_when_none_is_given(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2036, 1, 2, 3, 4, 5, 6, tzinfo=UTC)

    monkeypatch.setattr("receiptledger.cli.options.datetime", Later)
    result = files.verify(at=None)
    assert result.exit_code == 3
    assert "judged as of 2036-01-02T03:04:05Z" in result.stdout


def test_a_claimed_time_outside_the_bounds_is_shown(tmp_path: Path) -> None:
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    world.stamp(BEFORE + timedelta(minutes=5), ALPHA)
    files = Files(tmp_path, world, ALPHA)
    result = files.verify()
    assert result.exit_code == 0
    assert "claims another time: 2026-11-30T10:00:00Z" in result.stdout
    assert "which is after it existed" in result.stdout
    assert files.verify("--require", "claimed-time").exit_code == 3


def test_a_trust_file_with_authorities(files: Files) -> None:
    trust = replace(files.world.trust(), tsa_quorum=2, require=frozenset({"anchor"}), moment=None)
    path = files.folder / "trust.toml"
    path.write_text(format_trust(trust))
    assert cli("verify", files.bundle, "--trust", path, "--at", NOW).exit_code == 0
    one = replace(trust, tsas=trust.tsas[:1], tsa_quorum=1)
    path.write_text(format_trust(one))
    assert cli("verify", files.bundle, "--trust", path, "--at", NOW).exit_code == 0
    # An option adds to the file: a root to an authority it names, or an authority.
    more = ("--tsa-root", f"alpha={files.folder / 'beta.pem'}")
    value = json.loads(
        cli("verify", files.bundle, "--trust", path, "--at", NOW, *more, "--json").stdout
    )
    assert value["facts"]["anchored_by"] == ["alpha"]
    assert {stamp["tsa"] for stamp in value["timestamps"]} == {"alpha"}


@pytest.mark.parametrize(
    ("args", "words"),
    named(
        {
            "no name": (("--tsa-root", "x.pem"), "--tsa-root expects NAME=FILE"),
            "no file": (("--tsa-root", "alpha="), "--tsa-root expects NAME=FILE"),
            "a name in capitals": (("--tsa-root", "Alpha=x.pem"), "in lower case"),
            "no such file": (("--tsa-root", "alpha=x.pem"), "--tsa-root alpha: cannot read"),
            "no moment": (("--at", "yesterday"), "--at 'yesterday': expected an RFC 3339"),
            "a root of two operators": (
                ("--tsa-root", "gamma=alpha.pem"),
                "tsa alpha and tsa gamma share a root certificate",
            ),
            "33 authorities": (
                tuple(word for at in range(31) for word in ("--tsa-root", f"tsa-{at}=alpha.pem")),
                "33 timestamp authorities, at most 32",
            ),
            "standard input for two": (
                ("--remembered", "-"),
                "- is the standard input, which is read once: not for BUNDLE and --remembered",
            ),
            "no such demand": (("--require", "anchors"), "--require expects one of"),
        }
    ),
)
def test_misuse(
    files: Files, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(files.folder)
    if "-" in args:
        files.bundle = Path("-")
    result = files.verify(*args, at=None)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_a_trust_files_authority_under_another_name(files: Files) -> None:
    """An option cannot make a second operator of one that the trust file names."""
    path = files.folder / "trust.toml"
    path.write_text(format_trust(replace(files.world.trust(), tsa_quorum=2, moment=None)))
    more = ("--tsa-root", f"gamma={files.folder / 'alpha.pem'}")
    result = cli("verify", files.bundle, "--trust", path, "--at", NOW, *more)
    assert result.exit_code == 2
    assert "tsa alpha and tsa gamma share a root certificate" in result.stderr


@pytest.mark.parametrize("option", ["--trust", "--tsa-root"])
def test_files_that_would_take_long_are_refused_at_once(files: Files, option: str) -> None:
    path = files.folder / "long"
    path.write_bytes(
        b"a" + b".a" * 20_000 + b"=1\n" if option == "--trust" else b"-----BEGIN A-----" * 60_000
    )
    files.roots = []
    result = files.verify(option, path if option == "--trust" else f"alpha={path}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_who_is_behind_a_bound_and_nobody_else(tmp_path: Path) -> None:
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.stamp(BEFORE + timedelta(minutes=1), BETA)
    world.seal()
    world.stamp(AFTER, ALPHA)
    world.stamp(AFTER + timedelta(minutes=1), BETA)
    files = Files(tmp_path, world, ALPHA, BETA)
    lines = files.verify().stdout.splitlines()
    assert f"existed no later than {UPPER} (alpha)" in lines
    assert "appended no earlier than 2026-11-30T09:50:59Z (beta)" in lines
    assert any("1 authority agrees, 1 asked for; 1 more stamped it later" in line for line in lines)
    facts = json.loads(files.verify("--json").stdout)["facts"]
    assert (facts["anchored_by"], facts["preceded_by"]) == (["alpha"], ["beta"])


def test_a_bundle_from_the_future(files: Files) -> None:
    early = files.verify(at="2026-11-30T09:00:00Z")
    assert early.exit_code == 1
    assert "time from the future: appended no earlier than" in early.stdout
    between = files.verify(at="2026-11-30T10:00:00Z")
    assert between.exit_code == 3
    assert "2 tokens from the future" in between.stdout
    assert "existed no later than" not in between.stdout


def test_the_report_holds_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    evil = Authority("\x1b[2J\x9b31m\u202egnihton")
    world = AnchoredWorld.made(ALPHA)
    world.round(AFTER, replace(evil, name="evil"))
    world.stamps[-1].request, world.stamps[-1].response = answer = evil.answer(
        world.stamps[-1].note, AFTER
    )
    world.log.leaves[world.stamps[-1].index] = world.anchor_leaf(
        world.stamps[-1].size, answer[1], "evil"
    ).encode()
    files = Files(tmp_path, world, BETA)
    result = files.verify("--json")
    assert not {"\x1b", "\x9b", "\u202e"} & set(result.stdout)
    details = [one["detail"] for one in json.loads(result.stdout)["timestamps"]]
    assert any("\x9b31m\u202egnihton" in detail for detail in details)
    text = files.verify().stdout
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)


# inspect


def test_inspect_shows_the_anchors(files: Files) -> None:
    world = files.world
    world.add_evidence(world.stamps[0], RevocationEvidence(ALPHA.crls(BEFORE)))
    files.bundle.write_bytes(world.bundle().encode())
    value = json.loads(cli("inspect", files.bundle, "--json").stdout)
    first = value["anchors"]["checkpoint 1"]
    assert first["tree_size"] == 1
    assert first["stamp 1"]["tsa"] == "alpha"
    assert first["stamp 1"]["response"]["gen_time"].startswith("2026-11-30T09:50:00")
    assert (first["stamp 1"]["evidence"]["crls"], first["stamp 2"]["evidence"]) == (2, None)
    assert "checkpoint 2" in cli("inspect", files.bundle).stdout


def test_inspect_shows_what_is_no_response(files: Files) -> None:
    world = files.world
    stamp = replace(world.stamps[0], response=b"hello")
    files.bundle.write_bytes(world.bundle(stamp).encode())
    value = json.loads(cli("inspect", files.bundle, "--json").stdout)
    assert "bad_timestamp" in value["anchors"]["checkpoint 1"]["stamp 1"]["response"]["unreadable"]
    rejected = replace(world.stamps[0], response=bytes.fromhex("30053003020102"))
    files.bundle.write_bytes(world.bundle(rejected).encode())
    value = json.loads(cli("inspect", files.bundle, "--json").stdout)
    assert value["anchors"]["checkpoint 1"]["stamp 1"]["response"]["gen_time"] is None


def test_inspect_shows_an_anchor_leaf(files: Files) -> None:
    leaf = files.folder / "leaf"
    leaf.write_bytes(files.world.log.leaves[1] + b"\n")
    value = json.loads(cli("inspect", leaf, "--json").stdout)
    assert (value["leaf"], value["tsa"], value["size"]) == ("anchor", "alpha", 1)
    assert value["evidence_hash"] is None
