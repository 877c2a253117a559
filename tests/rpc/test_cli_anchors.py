"""`receiptledger anchors` and the blocking auditor, against a daemon that is a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from typer.testing import CliRunner, Result

from receiptledger.cli.app import app
from receiptledger.core.anchor_stamps import Outcome
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.sync import Auditor
from receiptledger.v1 import anchor_pb2, anchor_pb2_grpc
from tests.helpers.authority import Authority
from tests.helpers.daemons import DaemonProcess, daemon_process
from tests.helpers.fake_proofs import FakeAnchors, FakeProofs, serving
from tests.helpers.ledger_kit import make_receipts
from tests.helpers.stamped_daemon import stamped_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
# The first token of ALPHA has evidence; GAMMA stamps nothing.
ALPHA, BETA, GAMMA = Authority("alpha", 1), Authority("beta", 2), Authority("gamma", 3)
RAWS = make_receipts(3)
SOON = ("--at", "2026-12-01T00:00:00Z")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("daemon")
    asyncio.run(stamped_folder(folder, RAWS, START, ALPHA, BETA))
    with daemon_process(folder) as running:
        yield running


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("roots")
    files = {}
    for authority in (ALPHA, BETA, GAMMA):
        files[authority.name] = folder / f"{authority.name}.pem"
        files[authority.name].write_text(ssl.DER_cert_to_PEM_cert(authority.trust.roots[0]))
    return files


def cli(ledger: str, *args: object, env: dict[str, str] | None = None) -> Result:
    environment = {"RECEIPTLEDGER_ADDRESS": ledger} | (env or {})
    result = CliRunner().invoke(app, [str(a) for a in args], env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def trusting(daemon: DaemonProcess, roots: dict[str, Path], *names: str) -> list[object]:
    given: list[object] = ["--log-key", daemon.log_key]
    for name in names:
        given += ["--tsa-root", f"{name}={roots[name]}"]
    return given


# list, show


def test_list(daemon: DaemonProcess) -> None:
    shown = cli(daemon.address, "anchors", "list")
    assert shown.exit_code == 0
    text = shown.stdout.splitlines()
    assert len(text) == 7
    assert text[0].split() == [
        "0", "2026-11-30T10:00:00Z", "alpha", "2", "leaves,", "leaf", "2,", "with", "revocation",
        "evidence",
    ]  # fmt: skip
    assert text[1].endswith("beta  2 leaves, leaf 3")
    assert text[6].startswith("Nothing here was verified")
    found = lines(cli(daemon.address, "anchors", "list", "--json"))
    assert [one["number"] for one in found] == list(range(6))
    assert found[0]["evidence_hash"].startswith("sha256:")
    assert (found[1]["evidence_hash"], found[1]["evidence_leaf_index"]) == (None, None)
    assert found[2]["gen_time"] == "2026-11-30T11:00:00Z"
    part = lines(cli(daemon.address, "anchors", "list", "--first", 2, "--count", 3, "--json"))
    assert part == found[2:5]
    none = cli(daemon.address, "anchors", "list", "--first", 6)
    assert none.stdout == "the ledger shows no timestamps\n"


def test_show(daemon: DaemonProcess) -> None:
    shown = cli(daemon.address, "anchors", "show", 0)
    assert shown.exit_code == 0
    assert "Nothing here was verified" in shown.stdout
    assert "gen_time" in shown.stdout
    value = json.loads(cli(daemon.address, "anchors", "show", 0, "--json").stdout)
    assert value["verified"] is False
    assert (value["number"], value["tsa"], value["tree_size"]) == (0, "alpha", 2)
    assert value["revocation_evidence"] == {"crls": 2, "ocsps": 0}
    assert value["checkpoint"].startswith("localhost/receipts\n2\n")
    assert value["response"]["status"] is not None
    absent = cli(daemon.address, "anchors", "show", 6)
    assert absent.exit_code == 2
    assert "no anchor has this number; expected 0..5; got 6" in absent.stderr


# verify


def test_verify_all(daemon: DaemonProcess, roots: dict[str, Path]) -> None:
    given = trusting(daemon, roots, "alpha", "beta")
    shown = cli(daemon.address, "anchors", "verify", *given, *SOON)
    assert shown.exit_code == 0, shown.output
    text = shown.stdout.splitlines()
    assert text[0].split() == [
        "0", "holds", "alpha,", "2", "leaves,", "2026-11-30T10:00:00Z,", "revocation", "good",
    ]  # fmt: skip
    assert text[-1] == "6 holds"
    found = lines(cli(daemon.address, "anchors", "verify", *given, *SOON, "--json"))
    assert found[-1] == {"summary": {"holds": 6}, "exit_code": 0}
    assert {one["outcome"] for one in found[:-1]} == {"holds"}
    assert [one["tsa"] for one in found[:2]] == ["alpha", "beta"]
    assert [one["revocation"] for one in found[:2]] == ["good", "unknown"]


def test_verify_one(daemon: DaemonProcess, roots: dict[str, Path], tmp_path: Path) -> None:
    given = trusting(daemon, roots, "beta")
    state = tmp_path / "state"
    one = cli(daemon.address, "anchors", "verify", 1, *given, *SOON, "--json", "--state", state)
    assert one.exit_code == 0
    assert [item.get("number") for item in lines(one)] == [1, None]
    assert state.exists()
    other = cli(daemon.address, "anchors", "verify", 0, *given, *SOON, "--json")
    assert other.exit_code == 3
    assert lines(other)[0]["outcome"] == "not trusted"
    absent = cli(daemon.address, "anchors", "verify", 77, *given)
    assert absent.exit_code == 2


def test_authorities_of_others_are_listed_and_not_counted(
    daemon: DaemonProcess, roots: dict[str, Path]
) -> None:
    some = cli(daemon.address, "anchors", "verify", *trusting(daemon, roots, "alpha"), *SOON)
    assert some.exit_code == 0
    assert some.stdout.splitlines()[-1] == "3 holds, 3 not trusted"
    none = cli(daemon.address, "anchors", "verify", *trusting(daemon, roots, "gamma"), *SOON)
    assert none.exit_code == 3


def test_what_has_expired_is_no_plain_pass(daemon: DaemonProcess, roots: dict[str, Path]) -> None:
    given = trusting(daemon, roots, "alpha", "beta")
    late = cli(daemon.address, "anchors", "verify", *given, "--at", "2036-06-01T00:00:00Z")
    assert late.exit_code == 3
    assert late.stdout.splitlines()[-1] == "6 expired, not renewed"


def test_verify_by_a_trust_file(
    daemon: DaemonProcess, roots: dict[str, Path], tmp_path: Path
) -> None:
    trust = tmp_path / "trust.toml"
    trust.write_text(
        f'[[log]]\nkey = "{daemon.log_key}"\n\n[[tsa]]\nname = "alpha"\n'
        f'roots = ["{roots["alpha"]}"]\n'
    )
    assert cli(daemon.address, "anchors", "verify", "--trust", trust, *SOON).exit_code == 0


def test_misuse(daemon: DaemonProcess, roots: dict[str, Path]) -> None:
    without = cli(daemon.address, "anchors", "verify", "--log-key", daemon.log_key)
    assert without.exit_code == 2
    assert "no timestamp authority" in without.stderr
    when = cli(
        daemon.address, "anchors", "verify", *trusting(daemon, roots, "alpha"), "--at", "noon"
    )
    assert when.exit_code == 2
    assert "noon" in when.stderr
    assert cli("127.0.0.1:1", "anchors", "list").exit_code == 2


def test_a_bar_on_a_terminal_only(daemon: DaemonProcess, roots: dict[str, Path]) -> None:
    command = [
        sys.executable, "-m", "receiptledger", "anchors", "verify", "--ledger", daemon.address,
        *map(str, trusting(daemon, roots, "alpha")), *SOON,
    ]  # fmt: skip
    quiet = subprocess.run(command, capture_output=True, timeout=60)
    assert (quiet.returncode, quiet.stderr) == (0, b"")
    outer, inner = pty.openpty()
    able = dict(os.environ) | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner, env=able)
    os.close(inner)
    drawn = b""
    while True:
        try:
            part = os.read(outer, 65_536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        drawn += part
    os.close(outer)
    assert process.stdout is not None
    assert process.stdout.read() == quiet.stdout
    assert process.wait(timeout=60) == 0
    process.stdout.close()
    assert b"verifying" in drawn
    assert b"6/6" in drawn


# A ledger that says what a test wants


@contextmanager
def faked(fake: FakeAnchors, proofs: FakeProofs | None = None) -> Iterator[str]:
    """A fake server on an event loop of its own thread; gives its address."""
    started: list[str] = []
    ready, done = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(proofs, anchors=fake) as address:
            started.append(address)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(30)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()


def in_process(ledger: str, *args: str) -> tuple[int, str, str]:
    """The command in a process of its own, since its server is in this one."""
    done = subprocess.run(
        [sys.executable, "-m", "receiptledger", *args, "--ledger", ledger],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_now() -> None:
    fake = FakeAnchors()
    fake.round = anchor_pb2.AnchorNowResponse(
        tree_size=9,
        quorum_reached=True,
        results=[
            anchor_pb2.TsaResult(tsa="alpha", gen_time_us=1_796_000_000_000_000),
            anchor_pb2.TsaResult(tsa="beta", cause="nonce", detail="another one"),
        ],
    )
    with faked(fake) as address:
        code, out, _ = in_process(address, "anchors", "now")
        assert code == 0
        assert "checkpoint of 9 leaves" in out
        assert "beta" in out
        assert "nonce: another one" in out
        fake.round.quorum_reached = False
        fake.round.results[0].gen_time_us = 2**63 - 1  # no calendar has it
        code, out, _ = in_process(address, "anchors", "now", "--json")
        value = json.loads(out)
        assert (code, value["quorum_reached"], value["tree_size"]) == (3, False, 9)
        assert [one["cause"] for one in value["results"]] == [None, "nonce"]
        assert value["results"][0]["gen_time"] == f"{2**63 - 1} us"
        assert "too few" in in_process(address, "anchors", "now")[1]
        fake.fail = ServiceError(Reason.OVERLOADED, "too soon", retry_after=12.0)
        code, out, err = in_process(address, "anchors", "now")
        assert (code, out) == (2, "")
        assert "too soon" in err


def test_verify_of_a_ledger_that_shows_something_else(
    daemon: DaemonProcess, roots: dict[str, Path]
) -> None:
    fake, given = FakeAnchors(), map(str, trusting(daemon, roots, "alpha"))
    command = ("anchors", "verify", *given, *SOON, "--json")
    fake.pages, fake.anchor = asyncio.run(first_anchor(daemon.address))
    proofs = FakeProofs(SimpleNamespace(note=lambda size: fake.anchor.checkpoint))  # type: ignore[arg-type]
    with faked(fake, proofs) as address:
        code, out, _ = in_process(address, *command)
        assert (code, json.loads(out.splitlines()[-1])["summary"]) == (0, {"holds": 1})
        fake.anchor.response += b"\0"  # not what it says it is
        code, out, _ = in_process(address, *command)
        assert code == 1
        first = json.loads(out.splitlines()[0])
        assert first["outcome"] == "bad"
        assert "another response" in first["detail"]
        fake.anchor.response = fake.anchor.response[:-1]
        fake.anchor.request = b"no request"
        code, out, _ = in_process(address, *command[:-1])
        assert code == 1
        assert out.splitlines()[-1] == "1 bad"
        fake.anchor.ClearField("leaf")
        fake.anchor.anchor.ClearField("leaf_index")
        code, out, _ = in_process(address, *command)
        assert code == 3
        assert json.loads(out.splitlines()[0])["outcome"] == "not logged yet"
        fake.anchor.response = b"no DER"
        code, out, _ = in_process(address, "anchors", "show", "0")
        assert code == 0
        assert "unreadable" in out


async def first_anchor(
    address: str,
) -> tuple[dict[int, anchor_pb2.ListAnchorsResponse], anchor_pb2.GetAnchorResponse]:
    """A list of one anchor, and that anchor."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = anchor_pb2_grpc.AnchorServiceStub(channel)
        page = await stub.ListAnchors(anchor_pb2.ListAnchorsRequest(limit=1))
        page.count = 1
        return {0: page}, await stub.GetAnchor(anchor_pb2.GetAnchorRequest(number=0))


def test_now_without_authorities(daemon: DaemonProcess) -> None:
    refused = cli(daemon.address, "anchors", "now")
    assert refused.exit_code == 2
    assert "no timestamp authority is configured" in refused.stderr


# The blocking auditor


def test_the_blocking_auditor(daemon: DaemonProcess) -> None:
    tsas = (ALPHA.trust, BETA.trust)
    with Auditor(daemon.address, daemon.log_key, tsas=tsas, tsa_quorum=2) as auditor:
        assert [one.number for one in auditor.anchors()] == list(range(6))
        assert [one.number for one in auditor.anchors(5)] == [5]
        judged = auditor.anchor(0)
        assert judged.stamp is not None
        assert judged.stamp.outcome is Outcome.HOLDS
        with pytest.raises(ServiceError) as caught:
            auditor.anchor_now()
        assert caught.value.reason is Reason.NOT_CONFIGURED
        bundle = auditor.prove(receipt_hash=sha256(RAWS[1]).digest())
        verdict = auditor.verify(bundle, moment=datetime(2026, 12, 1, tzinfo=UTC))
        assert verdict.facts["anchored_by"] == ["alpha", "beta"]


# prove


def test_prove_writes_the_anchors(
    daemon: DaemonProcess, roots: dict[str, Path], tmp_path: Path
) -> None:
    given = trusting(daemon, roots, "alpha", "beta")
    bundle = tmp_path / "bundle.json"
    place = ("--agent", "agent-1", "--position", 1)
    proven = cli(daemon.address, "prove", *place, *given, "-o", bundle)
    assert proven.exit_code == 0, proven.output
    assert "existed no later than 2026-11-30T11:00:01Z (alpha, beta)" in proven.stdout
    assert "appended no earlier than 2026-11-30T09:59:59Z (alpha, beta)" in proven.stdout
    shown = cli(daemon.address, "verify", bundle, *given, *SOON, "--require", "anchor", "--json")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["facts"]["state"] == "anchored"
