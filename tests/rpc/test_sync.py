"""The blocking faces and the command line against a daemon in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from receiptledger.cli.app import app
from receiptledger.core.bundle import parse_bundle
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.errors import ReceiptError, ServiceError
from receiptledger.core.verdict import ExitCode
from receiptledger.sync import Agent, Auditor
from tests.helpers.agents import FarleyAgent
from tests.helpers.daemons import DaemonProcess, daemon_process, log_signer
from tests.helpers.ledger_kit import MiniLedger, agent_key, make_receipts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALL = {"tool": "search", "args": {"q": 1}, "result": None, "policy_id": "p"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with daemon_process(tmp_path_factory.mktemp("daemon")) as running:
        yield running
        assert running.stop() == 0


def cli(daemon: DaemonProcess, *args: object, stdin: bytes = b"") -> Result:
    """Run the command against the daemon; a traceback fails the test."""
    env = {"RECEIPTLEDGER_ADDRESS": daemon.address, "RECEIPTLEDGER_LOG_KEY": daemon.log_key}
    result = CliRunner().invoke(app, [str(a) for a in args], input=stdin, env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def digest(raw: bytes) -> bytes:
    return sha256(raw).digest()


# The blocking faces.


def test_agent_and_auditor(daemon: DaemonProcess, tmp_path: Path) -> None:
    with Agent(daemon.address, "sync-1", agent_key("sync-1")) as agent:
        assert agent.head is None
        built = [agent.record(**CALL) for _ in range(3)]
        agent.flush(10)
        assert agent.unacknowledged == ()
        assert agent.head is not None
        assert agent.head.position == 2
        raws = make_receipts(3, "sync-foreign")
        listed = [r.answer.outcome for r in agent.submit(raws)]
        assert listed == ["accepted"] * 3
        assert [r.answer.outcome for r in agent.submit(iter(raws))] == ["duplicate"] * 3
        for _ in agent.submit(iter(raws)):
            break  # the rest is dropped without a trace

    with Auditor(daemon.address, daemon.log_key, tmp_path / "state") as auditor:
        bundle = auditor.prove(receipt_hash=built[1].receipt_hash)
        assert auditor.verify(bundle).exit_code is ExitCode.VALID
        assert auditor.get_receipt(agent="sync-1", position=1).raw == built[1].raw
        seen = auditor.checkpoint()
        assert auditor.observe(seen.note) == seen
        assert auditor.remembered == seen
        assert next(iter(auditor.watch())).checkpoint.size >= seen.checkpoint.size


def test_errors_come_out_as_they_are(daemon: DaemonProcess) -> None:
    with pytest.raises(ServiceError, match="not started"):
        Agent(daemon.address, "x", agent_key("x")).record(**CALL)
    with (
        Agent(daemon.address, "sync-err", agent_key("x")) as agent,
        pytest.raises(ReceiptError, match="no JSON form"),
    ):
        agent.record(**{**CALL, "args": object()})


def test_many_threads_share_one_agent(daemon: DaemonProcess) -> None:
    with Agent(daemon.address, "sync-threads", agent_key("t")) as agent:
        positions: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: positions.extend(agent.record(**CALL).position for _ in range(25))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(positions) == list(range(100))
    background = [t for t in threading.enumerate() if t.name == "receiptledger"]
    assert len(background) == 1


SCRIPT = """
import os, sys
from receiptledger import Agent, SeedSigner, ServiceError
address, name = sys.argv[1:]
call = {"tool": "t", "args": {}, "result": None, "policy_id": "p"}
agent = Agent(address, name, SeedSigner(bytes(32)))
agent.start()
agent.record(**call)
agent.flush()
child = os.fork()
if child == 0:
    try:
        agent.record(**call)
    except ServiceError as error:
        assert "before the process forked" in str(error), error
    else:
        os._exit(1)
    with Agent(address, name + "-child", SeedSigner(bytes(range(32)))) as own:
        own.record(**call)
    sys.exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 0, status
agent.record(**call)
# Left open on purpose: the end of the interpreter closes it.
"""


def test_fork_and_exit(daemon: DaemonProcess) -> None:
    """As under gunicorn: made before the fork, used after it; and a program that just ends."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, daemon.address, "sync-fork"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    parent = json.loads(cli(daemon, "head", "sync-fork", "--json").stdout)
    child = json.loads(cli(daemon, "head", "sync-fork-child", "--json").stdout)
    assert (parent["position"], child["position"]) == (1, 0)


ASYNC_SCRIPT = """
import asyncio, os, sys
from receiptledger import Agent, AsyncAgent, SeedSigner, ServiceError
address, name = sys.argv[1:]
call = {"tool": "t", "args": {}, "result": None, "policy_id": "p"}

async def main():
    async with AsyncAgent(address, name, SeedSigner(bytes(32))) as agent:
        await agent.record(**call)
        await agent.flush()
        child = os.fork()
        if child == 0:
            try:
                Agent(address, name + "-child", SeedSigner(bytes(32))).start()
            except ServiceError as error:
                os._exit(0 if "gRPC does not survive" in str(error) else 2)
            os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # Told, or killed by gRPC itself when another of its threads was busy: never hanging.
        assert status == 0 or status < 0, status
        await agent.record(**call)

asyncio.run(main())
"""


def test_a_fork_under_an_open_connection_is_told(daemon: DaemonProcess) -> None:
    """Nobody parks the connection of a program's own loop: its child must not hang in gRPC."""
    done = subprocess.run(
        [sys.executable, "-c", ASYNC_SCRIPT, daemon.address, "async-fork"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    parent = json.loads(cli(daemon, "head", "async-fork", "--json").stdout)
    assert parent["position"] == 1


FORKS_SCRIPT = """
import os, sys
from receiptledger import Agent, SeedSigner
call = {"tool": "t", "args": {}, "result": None, "policy_id": "p"}
with Agent(sys.argv[1], "sync-forks", SeedSigner(bytes(32))) as agent:
    for _ in range(5):
        agent.record(**call)
        child = os.fork()
        if child == 0:
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 7, status
        agent.record(**call)
"""


def test_forks_while_recording(daemon: DaemonProcess) -> None:
    """Every fork breaks the connection, and nothing is lost or doubled.

    In a process of its own: what another test left alive of gRPC would keep it from being parked.
    """
    done = subprocess.run(
        [sys.executable, "-c", FORKS_SCRIPT, daemon.address],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(cli(daemon, "head", "sync-forks", "--json").stdout)["position"] == 9


EXIT_SCRIPT = """
import sys, warnings
from receiptledger import Agent, Retry, SeedSigner, SendOptions
warnings.simplefilter("always")
options = SendOptions(linger_ms=0, retry=Retry(first_s=0, attempts=2))
agent = Agent(sys.argv[1], "sync-exit", SeedSigner(bytes(32)), options=options)
agent.start()
import os, signal
os.kill(int(sys.argv[2]), signal.SIGKILL)
agent.record(tool="t", args={}, result=None, policy_id="p")
"""


def test_exit_without_a_ledger_is_not_silent(tmp_path: Path) -> None:
    with daemon_process(tmp_path) as running:
        done = subprocess.run(
            [sys.executable, "-c", EXIT_SCRIPT, running.address, str(running.process.pid)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert "ResourceWarning" in done.stderr
    assert "1 receipts are unacknowledged" in done.stderr


def test_spawned_workers(daemon: DaemonProcess) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(_record_in_worker, (daemon.address, "sync-spawned")) == 0


def _record_in_worker(address: str, name: str) -> int:
    with Agent(address, name, agent_key(name)) as agent:
        return agent.record(**CALL).position


# The command line.


def test_record_head_prove_verify(daemon: DaemonProcess, tmp_path: Path) -> None:
    key, bundle = tmp_path / "k", tmp_path / "bundle.json"
    assert cli(daemon, "keygen", "-o", key).exit_code == 0
    call = ("record", "--agent", "cli-1", "--key-file", key, "--tool", "t", "--policy", "p")
    for position in range(2):
        result = cli(daemon, *call, "--args", '{"q": 1}', "--json")
        assert result.exit_code == 0, result.output
        value = json.loads(result.stdout)
        assert (value["position"], value["sequence"]) == (position, position)
    assert digest_text(digest(value["receipt"].encode())) == value["receipt_hash"]
    text = cli(daemon, *call, "--ack", "sealed").stdout
    assert text.startswith("sha256:")
    assert text.endswith("position 2 of cli-1, sealed\n")

    head = cli(daemon, "head", "cli-1")
    assert head.stdout.startswith("position 2, sequence 2, link sha256:")
    assert json.loads(cli(daemon, "head", "cli-1", "--json").stdout)["exists"] is True
    nobody = cli(daemon, "head", "nobody", "--stream", "s")
    assert (nobody.exit_code, nobody.stdout) == (0, "the ledger has no receipt of nobody / s\n")
    assert json.loads(cli(daemon, "head", "nobody", "--json").stdout) == {
        "agent": "nobody",
        "stream": "",
        "exists": False,
        "position": None,
        "link_hash": None,
        "sequence": None,
    }

    state = tmp_path / "state"
    result = cli(daemon, "prove", "--hash", value["receipt_hash"], "-o", bundle, "--state", state)
    assert result.exit_code == 0, result.output
    assert "position 1 of cli-1" in result.stdout
    assert parse_bundle(bundle.read_bytes()).position == 1
    assert cli(daemon, "verify", bundle).exit_code == 0
    place = ("--agent", "cli-1", "--position", 1)
    as_json = cli(daemon, "prove", *place, "-o", bundle, "--since", state, "--json")
    assert json.loads(as_json.stdout)["file"] == str(bundle)
    assert cli(daemon, "verify", bundle, "--remembered", state).exit_code == 0
    # Without a file, the bundle itself is the output.
    printed = cli(daemon, "prove", "--hash", value["receipt_hash"].removeprefix("sha256:"))
    assert parse_bundle(printed.stdout_bytes).receipt.raw == value["receipt"].encode()
    missing = cli(daemon, "prove", *place, "-o", tmp_path / "no" / "bundle")
    assert (missing.exit_code, "cannot write" in missing.stderr) == (2, True)
    absent = cli(daemon, "prove", "--agent", "cli-1", "--position", 99)
    assert (absent.exit_code, "not_found" in absent.stderr) == (2, True)


def test_record_is_refused(daemon: DaemonProcess, tmp_path: Path) -> None:
    for name in ("one", "two"):
        cli(daemon, "keygen", "-o", tmp_path / name)
    call = ("record", "--agent", "cli-refused", "--tool", "t", "--policy", "p", "--key-file")
    assert cli(daemon, *call, tmp_path / "one").exit_code == 0
    result = cli(daemon, *call, tmp_path / "two")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("receiptledger: wrong_key: refused by the ledger")
    assert result.stderr.count("\n") == 1


def test_submit_lines(daemon: DaemonProcess, tmp_path: Path) -> None:
    raws = make_receipts(4, "cli-lines")
    path = tmp_path / "receipts.jsonl"
    path.write_bytes(b"\n".join([raws[0], b"", raws[3], b"{}", raws[1]]) + b"\n")
    result = cli(daemon, "submit", path)
    assert result.exit_code == 1
    lines = result.stdout.split("\n")
    assert lines[0].startswith("line 3: gap: position 2 with previous hash sha256:")
    assert lines[1].startswith("line 4: unknown_profile: no known receipt format matches; expected")
    assert lines[2] == "2 accepted, 0 duplicate, 2 refused (1 gap, 1 unknown_profile)"
    again = cli(daemon, "submit", "-", "--ack", "sealed", stdin=b"\n".join(raws))
    assert (again.exit_code, again.stdout) == (0, "2 accepted, 2 duplicate, 0 refused\n")


def test_submit_json(daemon: DaemonProcess) -> None:
    raws = make_receipts(2, "cli-json")
    data = b"\n".join([*raws, b"nonsense"])
    result = cli(daemon, "submit", "-", "--json", "--ack", "sealed", stdin=data)
    assert result.exit_code == 1
    *rows, summary = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert rows[0]["outcome"] == "accepted"
    assert isinstance(rows[0]["leaf_index"], int)
    assert rows[1]["receipt_hash"] == digest_text(digest(raws[1]))
    assert (rows[2]["outcome"], rows[2]["reason"]) == ("refused", "malformed")
    assert summary == {
        "summary": {"accepted": 2, "duplicate": 0, "refused": 1, "reasons": {"malformed": 1}}
    }
    gap = cli(daemon, "submit", "-", "--json", stdin=make_receipts(4, "cli-json")[3])
    row = json.loads(gap.stdout.splitlines()[0])
    assert (row["reason"], row["position"]) == ("gap", 2)
    assert row["expected_hash"] == digest_text(digest(raws[1]))


def test_submit_a_document_sends_the_exact_bytes(daemon: DaemonProcess, tmp_path: Path) -> None:
    """Indented, the receipts are other bytes of the same content; they must arrive as they are."""
    pretty = [
        json.dumps(json.loads(raw), indent=2).encode() for raw in make_receipts(2, "cli-array")
    ]
    path = tmp_path / "receipts.json"
    path.write_bytes(b"[\n" + b",\n".join(pretty) + b"\n]\n")
    result = cli(daemon, "submit", path, "--array", "--ack", "sealed")
    assert (result.exit_code, result.stdout) == (0, "2 accepted, 0 duplicate, 0 refused\n")
    for raw in pretty:
        printed = cli(daemon, "prove", "--hash", digest_text(digest(raw)))
        assert parse_bundle(printed.stdout_bytes).receipt.raw == raw
    one = tmp_path / "one.json"
    one.write_bytes(pretty[0])
    assert cli(daemon, "submit", one).stdout == "0 accepted, 1 duplicate, 0 refused\n"


def test_submit_with_key_hints(daemon: DaemonProcess, tmp_path: Path) -> None:
    farley = FarleyAgent("cli-farley")
    data = b"\n".join(farley.receipts(2))
    keys = tmp_path / "keys"
    keys.write_text(f"# known keys\n\n{base64url_encode(farley.public_key)}\n")
    refused = cli(daemon, "submit", "-", stdin=data)
    assert "unknown_key" in refused.stdout
    wrong = cli(daemon, "submit", "-", "--profile", "ms-lesson18", "--key", keys, stdin=data)
    assert "2 refused" in wrong.stdout
    assert cli(daemon, "submit", "-", "--key", keys, stdin=data).exit_code == 0


def test_submit_shows_progress_on_a_terminal_only(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    path.write_bytes(b"\n".join(make_receipts(2, "cli-terminal")))
    command = [sys.executable, "-c", "from receiptledger.cli import main; main()"]
    command += ["submit", str(path), "--ledger", daemon.address]
    outer, inner = os.openpty()
    able = os.environ | {"TERM": "xterm"}  # a dumb terminal gets no progress
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner, env=able)
    os.close(inner)
    out, _ = process.communicate(timeout=60)
    shown = b""
    try:
        while chunk := os.read(outer, 4_096):
            shown += chunk
    except OSError:
        pass  # how a terminal ends
    os.close(outer)
    assert process.returncode == 0
    assert out == b"2 accepted, 0 duplicate, 0 refused\n"
    assert b"receipts" in shown
    quiet = subprocess.run(command, capture_output=True, timeout=60)
    assert (quiet.stdout, quiet.stderr) == (b"0 accepted, 2 duplicate, 0 refused\n", b"")


def test_watch(daemon: DaemonProcess, tmp_path: Path) -> None:
    state = tmp_path / "state"
    result = cli(daemon, "watch", "--count", 1, "--state", state)
    assert result.exit_code == 0
    assert result.stdout.startswith("localhost/receipts  ")
    value = json.loads(cli(daemon, "watch", "--count", 1, "--json").stdout)
    assert value["log"] == "localhost/receipts"
    assert state.read_bytes().decode().split("\n")[0] == value["log"]


def test_watch_ends_on_interrupt(daemon: DaemonProcess) -> None:
    command = [sys.executable, "-c", "from receiptledger.cli import main; main()"]
    command += ["watch", "--ledger", daemon.address, "--log-key", daemon.log_key]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_watch_tells_where_the_proof_of_a_split_is(daemon: DaemonProcess, tmp_path: Path) -> None:
    """The state file has a checkpoint that this log never had: signed by its key, so it has split."""
    signer = log_signer(daemon)
    forged = sign_checkpoint(Checkpoint(signer.verifier.name, 1, bytes(32)), signer)
    state = tmp_path / "state"
    state.write_bytes(forged)
    result = cli(daemon, "watch", "--count", 1, "--state", state)
    assert result.exit_code == 1
    assert "inconsistent" in result.stderr
    assert "both notes are kept in" in result.stderr
    assert len(list(tmp_path.glob("state.conflict-*"))) == 2
    stateless = cli(daemon, "prove", "--agent", "cli-1", "--position", 0, "--since", state)
    assert stateless.exit_code == 1
    assert "run with --state to keep both notes" in stateless.stderr


def test_the_wrong_log_key(daemon: DaemonProcess) -> None:
    result = cli(daemon, "watch", "--count", 1, "--log-key", MiniLedger().vkey)
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("receiptledger: ")
