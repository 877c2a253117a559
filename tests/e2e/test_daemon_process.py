"""`ledgerd` as a process: what it refuses to start on, what it says then, and how it stops."""

from __future__ import annotations

import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import grpc
import httpx
import pytest
from rocksdict import Options, Rdict

from ledgerd.store.families import DEFAULT
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.note import VerifierKey
from receiptledger.v1 import ingest_pb2, ingest_pb2_grpc, types_pb2
from tests.helpers.agents import Agent
from tests.helpers.daemon_process import RunningDaemon, ledgerd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

AGENT = Agent("agent", 1)
RAWS = AGENT.receipts(6)
SEALED = ingest_pb2.ACK_LEVEL_SEALED


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def start(data: Path, *arguments: str, **settings: object) -> RunningDaemon:
    return RunningDaemon(data, *arguments, **{"seal_interval_ms": 10, **settings})


def append(daemon: RunningDaemon, raws: Sequence[bytes]) -> None:
    """Send receipts and wait until they are sealed."""
    batch = ingest_pb2.AppendRequest(receipts=raws, ack_level=SEALED)
    with grpc.insecure_channel(daemon.grpc) as channel:
        (response,) = ingest_pb2_grpc.IngestServiceStub(channel).Append(iter([batch]), timeout=30)
    assert {answer.outcome for answer in response.answers} == {types_pb2.OUTCOME_ACCEPTED}


def live(data: Path, raws: Sequence[bytes] = (), *arguments: str, **settings: object) -> str:
    """One daemon's life without incident; its log key."""
    with start(data, *arguments, **settings) as daemon:
        daemon.wait_ready()
        if raws:
            append(daemon, raws)
        daemon.terminate()
        assert daemon.wait() == 0, daemon.stderr
        return str(daemon.log_key)


def refusal(data: Path, *arguments: str, **settings: object) -> str:
    """Start a daemon that must not start; what it says."""
    with start(data, *arguments, **settings) as daemon:
        assert daemon.wait() == 2, daemon.stderr
        assert daemon.events("ready") == []
        assert "Traceback" not in daemon.stderr
        return daemon.stderr


# Starting and stopping.


def test_a_life(data: Path) -> None:
    """First start: a key and a guard are made. SIGTERM: sealed and closed, exit code 0."""
    with start(data) as daemon:
        daemon.wait_ready()
        assert (data / "log.key").stat().st_mode & 0o777 == 0o600
        append(daemon, RAWS[:3])
        page = httpx.get(f"{daemon.http}/checkpoint")
        assert open_checkpoint(page.content, daemon.log_key).size == 2
        daemon.terminate()
        assert daemon.wait() == 0
        assert [event["event"] for event in map(json.loads, daemon.stderr.splitlines())] == [
            "ready",
            "draining",
            "stopped",
        ]
        key = daemon.log_key
    assert open_checkpoint((data / "guard").read_bytes(), key).size == 2
    with start(data) as daemon:
        daemon.wait_ready()
        assert (daemon.log_key, daemon.ready["tree_size"]) == (key, 2)
        append(daemon, RAWS[3:])


def test_sigint_stops_as_well_as_sigterm(data: Path) -> None:
    with start(data) as daemon:
        daemon.wait_ready()
        append(daemon, RAWS)
        daemon.interrupt()
        assert daemon.wait() == 0
        assert len(daemon.events("stopped")) == 1
        assert "Traceback" not in daemon.stderr


def test_a_second_signal_changes_nothing(data: Path) -> None:
    with start(data) as daemon:
        daemon.wait_ready()
        daemon.terminate()
        daemon.terminate()
        daemon.interrupt()
        assert daemon.wait() == 0
        assert len(daemon.events("stopped")) == 1


def test_a_sender_is_told_and_not_cut_off(data: Path) -> None:
    """A batch that is under way while the daemon drains must not cost the answers before it."""
    with start(data) as daemon, grpc.insecure_channel(daemon.wait_ready().grpc) as channel:

        def requests() -> Iterator[ingest_pb2.AppendRequest]:
            yield ingest_pb2.AppendRequest(batch_id=1, receipts=RAWS[:1])
            assert next(responses).batch_id == 1
            daemon.terminate()
            told.append(next(responses).draining)
            for batch_id in range(2, 20):
                yield ingest_pb2.AppendRequest(batch_id=batch_id, receipts=RAWS[1:2])

        told: list[bool] = []
        responses = ingest_pb2_grpc.IngestServiceStub(channel).Append(requests(), timeout=30)
        assert responses.code() is grpc.StatusCode.OK
        assert told == [True]
        assert daemon.wait() == 0
    assert "1 of 1 chains, 0 not sealed yet" in ledgerd("fsck", data).stdout


def test_a_sender_that_does_not_react_does_not_hold_up_the_stop(data: Path) -> None:
    over = threading.Event()

    def silent() -> Iterator[ingest_pb2.AppendRequest]:
        yield ingest_pb2.AppendRequest(receipts=RAWS)
        over.wait(60)

    with start(data, drain_seconds=60) as daemon:
        with grpc.insecure_channel(daemon.wait_ready().grpc) as channel:
            responses = ingest_pb2_grpc.IngestServiceStub(channel).Append(silent(), timeout=60)
            assert len(next(responses).answers) == len(RAWS)
            daemon.terminate()
            assert [response.draining for response in responses] == [True]
            assert not over.is_set()
            over.set()
        assert daemon.wait() == 0


# What it does not start on.


def test_a_second_daemon_on_the_same_folder_is_refused(data: Path) -> None:
    with start(data) as daemon:
        daemon.wait_ready()
        assert "in use by another ledgerd: stop that one, or use another folder" in refusal(data)
        assert ledgerd("fsck", data).returncode == 2
        append(daemon, RAWS)  # the first one noticed nothing
        daemon.terminate()
        assert daemon.wait() == 0


@pytest.mark.parametrize(("setting", "protocol"), [("listen", "gRPC"), ("http_listen", "HTTP")])
def test_a_port_in_use_is_refused(data: Path, setting: str, protocol: str) -> None:
    live(data, RAWS[:3])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refusal(data, **{setting: address})
    assert f"cannot listen on {address} for {protocol}" in said
    live(data, RAWS[3:])


def test_a_missing_log_key_is_refused(data: Path) -> None:
    live(data, RAWS[:3])
    (data / "log.key").rename(data / "kept.key")
    said = refusal(data)
    assert "log.key is missing. Put the copy you kept back in its place" in said
    assert not (data / "log.key").exists()
    live(data, RAWS[3:], log_key_path=data / "kept.key")


def test_a_log_key_open_to_others_is_refused(data: Path) -> None:
    live(data)
    (data / "log.key").chmod(0o644)
    assert f"open to others (mode 644): chmod 600 {data / 'log.key'}" in refusal(data)


def test_another_origin_is_refused(data: Path) -> None:
    live(data)
    said = refusal(data, origin="other.example/log")
    assert "is the key of log 'localhost/receipts', the setting origin says 'other.example" in said


def test_another_logs_key_is_refused(data: Path, tmp_path: Path) -> None:
    live(data, RAWS)
    other = tmp_path / "other.key"
    assert ledgerd("keygen", "localhost/receipts", "--out", other).returncode == 0
    said = refusal(data, log_key_path=other)
    assert "If the log key was replaced, put the old one back" in said


def test_a_stale_restore_is_refused(data: Path, tmp_path: Path) -> None:
    """The database is put back from a copy; the guard remembers what was signed since."""
    live(data, RAWS[:3])
    shutil.copytree(data / "db", tmp_path / "backup")
    live(data, RAWS[3:])
    shutil.move(data / "db", tmp_path / "newest")
    shutil.copytree(tmp_path / "backup", data / "db")
    said = refusal(data)
    assert "the database has 2 leaves, but 3 were signed" in said
    assert "Put the newest copy back, or start a new log with a new origin and key" in said
    checked = ledgerd("fsck", data)
    assert checked.returncode == 1
    assert "guard       ahead of the log" in checked.stdout
    shutil.rmtree(data / "db")
    shutil.move(tmp_path / "newest", data / "db")
    live(data)
    assert ledgerd("fsck", data).returncode == 0


def test_a_lost_database_is_refused(data: Path) -> None:
    live(data, RAWS)
    shutil.rmtree(data / "db")
    assert "the database is empty, but the guard says 2 leaves were signed" in refusal(data)


def test_a_missing_guard_is_refused_unless_it_is_accepted(data: Path) -> None:
    key = live(data, RAWS[:3])
    (data / "guard").unlink()
    said = refusal(data)
    assert "the guard file is missing, but the log has 2 leaves" in said
    assert "start once with --create-guard" in said
    live(data, RAWS[3:], "--create-guard")
    assert open_checkpoint((data / "guard").read_bytes(), VerifierKey.parse(key)).size == 3
    live(data)


def test_a_damaged_guard_is_refused(data: Path) -> None:
    live(data, RAWS)
    (data / "guard").write_text("x")
    assert "the guard file is not a checkpoint of this log" in refusal(data)


def test_a_newer_store_format_is_refused(data: Path) -> None:
    live(data)
    database = data / "db"
    names = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(database))}
    opened = Rdict(str(database), names.pop(DEFAULT), names)
    opened.create_column_family("format-2", Options(raw_mode=True))
    opened.close()
    said = refusal(data)
    assert "was written by a newer ledgerd (store format 2; this one knows 1)" in said
    assert ledgerd("fsck", data).returncode == 2


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "file" in refusal(tmp_path / "file" / "data")


def test_a_damaged_log_is_refused(data: Path) -> None:
    """A flipped bit under the newest root: signing over it would seal it for ever."""
    live(data, RAWS)
    database = data / "db"
    names = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(database))}
    opened = Rdict(str(database), names.pop(DEFAULT), names)
    leaves = opened.get_column_family("leaves")
    key = bytes(7) + b"\x01"
    leaves[key] = leaves[key].replace(b'"last":5', b'"last":4')
    del leaves
    opened.close()
    assert "leaf 1 does not hash to what its tile says" in refusal(data)


# Commands.


def test_check_config_of_a_good_file(tmp_path: Path) -> None:
    config = tmp_path / "ledgerd.toml"
    config.write_text('origin = "ledger.example/log"\nseal_interval_ms = 100\n')
    result = ledgerd("check-config", "--config", config)
    assert (result.returncode, result.stderr) == (0, "")
    assert "* seal_interval_ms = 100" in result.stdout
    assert "  drain_seconds = 10.0" in result.stdout
    assert "The configuration is good" in result.stdout
    values = json.loads(ledgerd("check-config", "--config", config, "--json").stdout)
    assert (values["origin"], values["seal_interval_ms"]) == ("ledger.example/log", 100)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seal_interval = 100", "did you mean seal_interval_ms?"),
        ("seal_interval_ms = 1", "setting seal_interval_ms"),
        ('listen = "7070"', "expected HOST:PORT"),
        ("origin =", "is not TOML"),
    ],
)
def test_check_config_of_a_bad_file(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "ledgerd.toml"
    config.write_text(text)
    result = ledgerd("check-config", "--config", config)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_serve_refuses_what_check_config_refuses(data: Path) -> None:
    assert "setting seal_interval_ms" in refusal(data, seal_interval_ms=1)
    assert not data.exists()


def test_fsck_shows_its_progress_on_a_terminal_only(data: Path) -> None:
    live(data, RAWS)
    screen, terminal = pty.openpty()
    try:
        result = subprocess.run(
            [sys.executable, "-m", "ledgerd", "fsck", str(data)],
            stdout=subprocess.PIPE,
            stderr=terminal,
            timeout=60,
            env={**os.environ, "TERM": "xterm"},
            check=True,
        )
        shown = os.read(screen, 65_536)
    finally:
        os.close(screen)
        os.close(terminal)
    assert b"receipts and leaves" in shown
    assert b"\x1b" not in result.stdout
    assert b"Clean" in result.stdout
