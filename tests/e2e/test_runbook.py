"""deploy/RUNBOOK.md, done: its commands run in order on a pretended machine, its messages are provoked.

Blocks of the runbook marked ```console are sessions: lines that begin with "$ " are run by bash, the
others must appear in the output ("..." stands for anything). Words after `console`: exit=N, the code
the last command must end with, and prepare=NAME, what happens before (see PREPARE). ```message blocks
are what `ledgerd` says when it refuses to start, <...> standing for what varies.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import grpc
import pytest

from ledgerd.signer import create_log_key
from ledgerd.store.folder import FolderLock
from receiptledger.v1 import ingest_pb2, ingest_pb2_grpc, types_pb2
from tests.helpers.agents import Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "deploy" / "RUNBOOK.md").read_text("utf-8")
BIN = Path(sys.executable).parent
LEDGERD = [sys.executable, "-m", "ledgerd"]

# How commands begin that are not run here, and why.
NOT_RUN = {
    "useradd ": "changes the machine",
    "python3 -m venv ": "the tests run in such a folder already",
    "/opt/ledgerd/bin/pip install ": "needs a network; make venv does the same",
    "systemctl daemon-reload": "needs systemd; the unit is checked by tests/unit/test_deploy.py",
    "docker ": "needs docker and a network; the Dockerfile is checked by tests/unit/test_deploy.py",
    "make alerts": "may need a network; the same checks run in tests/unit/test_deploy.py",
}
# systemd's part is played by the test: it runs ExecStart of the unit in the unit's folder.
SYSTEMCTL = {
    "systemctl enable --now ledgerd": ("start",),
    "systemctl start ledgerd": ("start",),
    "systemctl restart ledgerd": ("stop", "start"),
    "systemctl stop ledgerd": ("stop",),
    "systemctl disable --now ledgerd": ("stop",),
}


class Block(NamedTuple):
    """One session of the runbook."""

    line: int
    options: dict[str, str]
    steps: list[tuple[str, list[str]]]  # a command and the lines it must print


def blocks(kind: str) -> Iterator[tuple[int, str, str]]:
    """Line number, words after the kind, and text of each fenced block of a kind."""
    for match in re.finditer(rf"(?ms)^```{kind}([^\n]*)\n(.*?)^```$", RUNBOOK):
        yield RUNBOOK.count("\n", 0, match.start()) + 1, match[1], match[2]


def sessions() -> Iterator[Block]:
    for line, words, text in blocks("console"):
        steps: list[tuple[str, list[str]]] = []
        for row in text.splitlines():
            if row.startswith("$ "):
                steps.append((row[2:], []))
            else:
                steps[-1][1].append(row)
        yield Block(line, dict(word.split("=") for word in words.split()), steps)


MESSAGES = [text.strip() for _, _, text in blocks("message")]


class Service:
    """A daemon in a process of its own; what it prints goes to the journal."""

    def __init__(self, command: list[str], journal: Path, cwd: Path | None = None) -> None:
        self.journal = journal
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True
        )
        self.ready = self._ready()

    def _ready(self) -> dict[str, str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._note(line)
            if '"event": "ready"' in line:
                ready: dict[str, str] = json.loads(line)
                return ready
        self.process.communicate()
        pytest.fail(
            f"the daemon ended with code {self.process.returncode}: {self.journal.read_text()}"
        )

    def _note(self, text: str) -> None:
        with self.journal.open("a") as file:
            file.write(text)

    def append(self, *agents: str) -> None:
        """Start a chain for each agent, sealed when this returns."""
        receipts = [Agent(name).receipt(0, None) for name in agents]
        request = ingest_pb2.AppendRequest(receipts=receipts, ack_level=ingest_pb2.ACK_LEVEL_SEALED)
        with grpc.insecure_channel(self.ready["grpc"]) as channel:
            stub = ingest_pb2_grpc.IngestServiceStub(channel)
            answers = next(iter(stub.Append(iter([request]), timeout=30))).answers
        assert [a.outcome for a in answers] == [types_pb2.OUTCOME_ACCEPTED] * len(agents)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        """Whatever happened, no process is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self._note(self.process.communicate(timeout=60)[1])
        return self.process.returncode


def environment() -> dict[str, str]:
    """Free ports instead of the usual ones; nothing else of the daemon's comes from outside."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("LEDGERD_")}
    return outside | {"LEDGERD_LISTEN": "127.0.0.1:0", "LEDGERD_HTTP_LISTEN": "127.0.0.1:0"}


class Machine:
    """/etc, /var/lib, /srv and /root below a temporary folder, and one service."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal = root / "journal"
        self.service: Service | None = None
        self.starts = 0
        for name in ("etc/systemd/system", "var/lib", "srv", "root"):
            (root / name).mkdir(parents=True)
        self.journal.touch()

    def path(self, text: str) -> str:
        """The same text, with its absolute paths below our folder."""
        text = text.replace("/opt/ledgerd/bin/", f"{BIN}/")
        return re.sub(r"(?<![\w/.-])/(?=(etc|var/lib|srv|root)(/|\s|$))", f"{self.root}/", text)

    def start(self) -> None:
        assert self.service is None, "started twice"
        text = Path(self.path("/etc/systemd/system/ledgerd.service")).read_text()
        lines = [line for line in text.splitlines() if "=" in line and line[0] != "#"]
        unit = dict(line.split("=", 1) for line in lines)
        for name in unit["StateDirectory"].split():
            (self.root / "var/lib" / name).mkdir(mode=0o700, exist_ok=True)
        folder = Path(self.path(unit["WorkingDirectory"]))
        self.service = Service(self.path(unit["ExecStart"]).split(), self.journal, folder)
        self.starts += 1
        if self.starts > 1:  # after the first start somebody uses it, so that copies grow old
            self.service.append(f"agent-{self.starts}")

    def stop(self) -> None:
        if self.service is not None:
            service, self.service = self.service, None
            assert service.stop() == 0

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and output of one command of the runbook."""
        if command in SYSTEMCTL:
            for name in SYSTEMCTL[command]:
                getattr(self, name)()
            return 0, ""
        command = self.path(command.removeprefix("runuser -u ledgerd -- "))
        for path in re.findall(r"(?<![\w:/.-])/[\w./-]+", command):
            assert path.startswith((f"{self.root}/", f"{BIN}/")), f"{command} would touch {path}"
        if "ledgerd serve" in command:  # in the foreground, until Ctrl-C
            before = len(self.journal.read_text())
            with Service(command.split(), self.journal, self.root / "var/lib/ledgerd") as service:
                return service.stop(signal.SIGINT), self.journal.read_text()[before:]
        variables = environment()
        if self.service is not None:
            variables["RECEIPTLEDGER_ADDRESS"] = self.service.ready["grpc"]
            command = command.replace("127.0.0.1:7071", self.service.ready["http"])
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; journalctl() {{ cat {self.journal}; }}; {command}"],
            cwd=ROOT,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def fresh_backup(self) -> None:
        """The newest state is in the backup: the daemon stopped before it was copied."""
        self.stop()
        backup = self.root / "srv/backup/ledgerd-2026-11-30"
        shutil.rmtree(backup)
        shutil.copytree(self.root / "var/lib/ledgerd/data", backup)

    def lost_guard(self) -> None:
        self.stop()
        (self.root / "var/lib/ledgerd-guard/guard").unlink()


PREPARE: dict[str, Callable[[Machine], None]] = {
    "fresh-backup": Machine.fresh_backup,
    "lost-guard": Machine.lost_guard,
}


def appears(line: str, output: str) -> bool:
    """Whether a line of the output begins with a line of the runbook, "..." being anything."""
    pattern = ".*".join(re.escape(part) for part in line.split("..."))
    return re.search(f"(?m)^{pattern}", output) is not None


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_command_does_what_the_runbook_says(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("SKIPPED: curl is not on this machine, the runbook was NOT tried")
    machine, ran = Machine(tmp_path), 0
    try:
        for block in sessions():
            if "prepare" in block.options:
                PREPARE[block.options["prepare"]](machine)
            for number, (command, lines) in enumerate(block.steps, 1):
                if command.startswith(tuple(NOT_RUN)):
                    continue
                code, output = machine.run(command)
                ran += 1
                last = number == len(block.steps)
                wanted = int(block.options.get("exit", 0)) if last else 0
                place = f"RUNBOOK.md, block at line {block.line}: {command}\n{output}"
                assert code == wanted, f"exit code {code}, not {wanted}: {place}"
                for line in lines:
                    assert appears(line, output), f"{line!r} is not in the output of {place}"
    finally:
        if machine.service is not None:
            machine.service.__exit__()
    assert ran > 40


def test_what_is_not_run_is_in_the_runbook() -> None:
    """No stale entry hides a command."""
    commands = {command for block in sessions() for command, _ in block.steps}
    for begin in NOT_RUN:
        assert any(command.startswith(begin) for command in commands), begin
    assert set(SYSTEMCTL) <= commands
    assert {b.options["prepare"] for b in sessions() if "prepare" in b.options} == set(PREPARE)


def test_output_lines_are_really_compared() -> None:
    assert appears('{"a": ..., "b"', 'x\n{"a": 5, "b": 6}')
    assert not appears('{"a": ..., "c"', 'x\n{"a": 5, "b": 6}')
    assert not appears("x.y", "xzy")


class Ledgers(NamedTuple):
    """Data folders: `old`, and two that went on from it differently, to the same size."""

    old: Path
    left: Path
    right: Path


def serve(data: Path, *arguments: str) -> list[str]:
    return [*LEDGERD, "serve", "--data-dir", str(data), *arguments]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    root = tmp_path_factory.mktemp("ledgers")
    found = Ledgers(root / "old", root / "left", root / "right")
    for folder in found:
        if folder != found.old:
            shutil.copytree(found.old, folder)
        with Service(serve(folder), root / f"{folder.name}.log") as service:
            service.append(folder.name)
            assert service.stop() == 0
    return found


def replace(path: Path, *, by: Path | str | None) -> None:
    """Take a file or folder away, and put a copy or a text in its place."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if isinstance(by, Path):
        (shutil.copytree if by.is_dir() else shutil.copy)(by, path)
    elif by is not None:
        path.write_text(by)


def new_key(data: Path, origin: str) -> None:
    (data / "log.key").unlink()
    create_log_key(data / "log.key", origin)


FOREIGN_GUARD = "elsewhere/receipts\n0\nAAAA\n\n\u2014 elsewhere/receipts AAAA\n"
# What is wrong with a folder (which starts as a copy of `left`) -> how the message begins.
SCENES: list[tuple[str, Callable[[Path, Ledgers], object]]] = [
    (
        "the database has <size> leaves, but",
        lambda data, made: replace(data / "db", by=made.old / "db"),
    ),
    ("the database is empty, but", lambda data, _: replace(data / "db", by=None)),
    ("the guard file is missing", lambda data, _: replace(data / "guard", by=None)),
    ("the guard file is not", lambda data, _: replace(data / "guard", by=FOREIGN_GUARD)),
    (
        "the database and the guard have different roots",
        lambda data, made: replace(data / "guard", by=made.right / "guard"),
    ),
    ("the log key <path> is missing", lambda data, _: replace(data / "log.key", by=None)),
    ("the stored log cannot be used", lambda data, _: new_key(data, "localhost/receipts")),
    ("<path> is the key of log", lambda data, _: new_key(data, "elsewhere/receipts")),
    ("<path> is open to others", lambda data, _: (data / "log.key").chmod(0o644)),
    ("<path> holds no log key", lambda data, _: (data / "log.key").write_text("PRIVATE+KEY+a+0+A")),
    ("cannot read the log key", lambda data, _: (data / "log.key").write_bytes(b"\xff")),
    ("<path> is not a ledger folder", lambda data, made: replace(data / "db", by=made.old)),
    ("<path> is a file", lambda data, _: replace(data / "db", by="")),
]


def matching(line: str) -> list[str]:
    """Messages of the runbook that a line of output is."""
    return [
        message
        for message in MESSAGES
        if re.fullmatch(".+".join(map(re.escape, re.split(r"<[a-z]+>", message))), line)
    ]


def refusal(data: Path, *arguments: str) -> str:
    """What a daemon says that does not start."""
    command = serve(data, *arguments)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    last = done.stderr.rstrip("\n").split("\n")[-1]
    assert last.startswith("ledgerd: "), done.stderr
    return last.removeprefix("ledgerd: ")


@pytest.mark.parametrize(("begins", "spoil"), SCENES, ids=[begins for begins, _ in SCENES])
def test_refusals_are_worded_as_in_the_runbook(
    ledgers: Ledgers, tmp_path: Path, begins: str, spoil: Callable[[Path, Ledgers], object]
) -> None:
    shutil.copytree(ledgers.left, tmp_path / "data")
    spoil(tmp_path / "data", ledgers)
    found = matching(refusal(tmp_path / "data"))
    assert len(found) == 1
    assert found[0].startswith(begins)


def test_folder_in_use_is_worded_as_in_the_runbook(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "db")
    try:
        assert matching(refusal(tmp_path))[0].startswith("the folder <path> is in use")
    finally:
        lock.release()


@pytest.mark.parametrize(("flag", "port"), [("--listen", "gRPC"), ("--http", "HTTP")])
def test_taken_ports_are_worded_as_in_the_runbook(tmp_path: Path, flag: str, port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = matching(refusal(tmp_path / "data", flag, address))
    assert found == [f"cannot listen on <address> for {port}: <error>"]


def test_health_check_of_the_image(tmp_path: Path) -> None:
    """The Dockerfile's HEALTHCHECK against a daemon that is ready, and against none."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    match = re.search(r"(?m)^HEALTHCHECK .*\\\n +CMD (\[.*\])$", dockerfile)
    assert match is not None
    command = json.loads(match[1])
    assert command[0] == "python"

    def check(address: str) -> int:
        variables = environment() | {"LEDGERD_HTTP_LISTEN": address}
        words = [sys.executable, *command[1:]]
        return subprocess.run(words, env=variables, capture_output=True, check=False).returncode

    with Service(serve(tmp_path / "data"), tmp_path / "log") as service:
        address = service.ready["http"].replace("127.0.0.1", "0.0.0.0")
        assert check(address) == 0
        assert service.stop() == 0
    assert check(address) == 1
