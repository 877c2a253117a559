"""`ledgerd dev-tsa` as a process: what it prints, that it stamps, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.tsa.second_opinion import check
from ledgerd.tsa.settings import TsaSettings
from tests.helpers.daemon_process import ledgerd
from tests.helpers.polling import PATIENCE, wait_for
from tests.helpers.tsa_kit import MESSAGE, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Started = subprocess.Popen[str]

QUERY, NONCE = request()


@pytest.fixture
def processes() -> Iterator[list[Started]]:
    """What a test started is gone afterwards."""
    started: list[Started] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def start(processes: list[Started], folder: Path, *arguments: str) -> Started:
    command = [sys.executable, "-m", "ledgerd", "dev-tsa", "--dir", str(folder), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    processes.append(process)
    return process


def facts(process: Started) -> dict[str, Any]:
    assert process.stdout is not None
    row: dict[str, Any] = json.loads(process.stdout.readline())
    return row


def post(url: str) -> bytes:
    headers = {"Content-Type": "application/timestamp-query"}
    with urllib.request.urlopen(
        urllib.request.Request(url, QUERY, headers), timeout=PATIENCE
    ) as got:
        return bytes(got.read())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_life(processes: list[Started], tmp_path: Path, number: int) -> None:
    process = start(processes, tmp_path / "dev", "--json", "--name", "mine")
    said = facts(process)
    assert said["notice"] == "NOT FOR PRODUCTION"
    (block,) = tomllib.loads(said["config"])["tsa"]
    check(post(said["url"]), MESSAGE, TsaSettings.model_validate(block).trust(), NONCE)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
    again = facts(start(processes, tmp_path / "dev", "--json"))
    assert again == said


def test_what_a_person_reads(processes: list[Started], tmp_path: Path) -> None:
    process = start(processes, tmp_path / "dev", "--key", "rsa3072", "--mode", "503")
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line.startswith("Ready."):
            break
    assert text.startswith("NOT FOR PRODUCTION: ")
    assert "rsa3072, 503" in text
    block = text.partition("[[tsa]]")[2].partition("\n\n")[0]
    settings = TsaSettings.model_validate(tomllib.loads("[[tsa]]" + block)["tsa"][0])
    assert f"URL         {settings.url}\n" in text
    assert settings.trust().roots
    with pytest.raises(urllib.error.HTTPError, match="503"):
        post(settings.url)


def test_it_ends_while_it_answers(processes: list[Started], tmp_path: Path) -> None:
    """A client that is made to wait does not keep it."""
    process = start(processes, tmp_path / "dev", "--json", "--mode", "slow-headers")
    port = int(facts(process)["url"].rsplit(":", 1)[1].strip("/"))
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = f"POST / HTTP/1.1\r\nContent-Length: {len(QUERY)}\r\n"
        head += "Content-Type: application/timestamp-query\r\nExpect: 100-continue\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(12) == b"HTTP/1.1 100", "it reads the request now"
        client.sendall(QUERY)
        process.terminate()
        assert process.wait(20) == 0


def test_no_second_one_on_its_port(processes: list[Started], tmp_path: Path) -> None:
    facts(start(processes, tmp_path / "dev", "--json"))
    second = ledgerd("dev-tsa", "--dir", tmp_path / "dev")
    assert second.returncode == 2
    assert "cannot listen on" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mode", "haywire"],
        ["--key", "ed25519"],
        ["--port", "65536"],
        ["--port", "-1"],
        ["--name", "Not Allowed"],
        ["surplus"],
    ],
)
def test_misuse(tmp_path: Path, arguments: list[str]) -> None:
    done = ledgerd("dev-tsa", "--dir", tmp_path / "dev", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "dev").exists()


def test_it_leaves_no_process_behind(processes: list[Started], tmp_path: Path) -> None:
    """openssl runs for milliseconds, within a request."""
    process = start(processes, tmp_path / "dev", "--json")
    url = facts(process)["url"]
    for _ in range(3):
        post(url)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    with pytest.raises(OSError, match="refused"):
        post(url)
    wait_for(lambda: process.poll() is not None, "it ended")
