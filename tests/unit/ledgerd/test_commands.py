"""The `ledgerd` command in this process: what is asked for, what is said, exit codes."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from typer.testing import CliRunner

from ledgerd import cli, commands, daemon
from ledgerd.config import Settings
from ledgerd.config_load import load_settings
from ledgerd.daemon import Daemon, StartError
from ledgerd.signer import load_log_key
from receiptledger import __version__
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.note import VerifierKey
from tests.helpers.anchor_world import signer
from tests.helpers.cases import named
from tests.helpers.daemons import settings_for
from tests.helpers.tls_kit import TlsAuthority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("LEDGERD_")]:
        monkeypatch.delenv(name)
    yield
    structlog.reset_defaults()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, list(arguments))


# serve


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Settings, bool]]:
    """What `serve` would run."""
    seen: list[tuple[Settings, bool]] = []

    def run(settings: Settings, *, create_guard: bool = False) -> int:
        seen.append((settings, create_guard))
        return 0

    monkeypatch.setattr(commands, "run", run)
    return seen


def test_serve_runs_with_file_flags_and_sets(
    tmp_path: Path, served: list[tuple[Settings, bool]]
) -> None:
    config = tmp_path / "ledgerd.toml"
    config.write_text('origin = "example.com/log"\nread_threads = 3\nlisten = "a:1"\n')
    result = call(
        *("serve", "--config", str(config), "--data-dir", str(tmp_path / "d")),
        *("--listen", "b:2", "--http", "c:3", "--set", "read_threads=4"),
        *("--set", "log_format=console", "--create-guard"),
    )
    assert result.exit_code == 0, result.output
    ((settings, create_guard),) = served
    assert settings.origin == "example.com/log"
    assert (settings.listen, settings.http_listen) == ("b:2", "c:3")
    assert settings.data_dir == tmp_path / "d"
    assert (settings.read_threads, settings.log_format) == (4, "console")
    assert create_guard is True


def test_serve_gives_on_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run", lambda settings, create_guard: 1)
    assert call("serve").exit_code == 1


def test_serve_says_why_it_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(settings: Settings, *, create_guard: bool) -> int:
        raise StartError("the guard file is missing")

    monkeypatch.setattr(commands, "run", run)
    result = call("serve")
    assert result.exit_code == 2
    assert result.stderr == "ledgerd: the guard file is missing\n"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "read_threads"], "--set expects NAME=VALUE, got 'read_threads'"),
        (["--set", "nothing=1"], "unknown setting 'nothing'"),
        (["--set", "read_threads=0"], "setting read_threads"),
        (["--listen", "x"], "setting listen"),
        (["--config", "/none/x.toml"], "cannot read the configuration file"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_a_bad_configuration_is_exit_code_two(
    command: str, arguments: list[str], said: str, served: list[tuple[Settings, bool]]
) -> None:
    result = call(command, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("ledgerd: ")
    assert said in result.stderr
    assert served == []


# check-config


def test_check_config_shows_every_setting_and_what_differs() -> None:
    result = call("check-config", "--set", "read_threads=5")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for name, field in Settings.model_fields.items():
        (line,) = [line for line in lines if line[2:].startswith(f"{name} = ")]
        assert line.startswith("* " if name == "read_threads" else "  ")
        assert f"      {field.description}" in lines
    assert "* read_threads = 5" in lines
    assert "The configuration is good" in lines[-1]


def test_check_config_reads_the_files_of_timestamp_authorities(tmp_path: Path) -> None:
    file = tmp_path / "ledgerd.toml"
    missing = tmp_path / "root.pem"
    file.write_text(f'[[tsa]]\nname = "one"\nurl = "https://tsa.example/"\nroots = ["{missing}"]\n')
    result = call("check-config", "--config", str(file))
    assert result.exit_code == 2
    assert f"ledgerd: [[tsa]] one: cannot read {missing}" in result.stderr
    root = x509.load_der_x509_certificate(signer("one").root.der)
    missing.write_bytes(root.public_bytes(Encoding.PEM))
    result = call("check-config", "--config", str(file))
    assert result.exit_code == 0, result.stderr
    assert "* tsa = 1 below: one\n" in result.stdout
    _, _, table = result.stdout.partition("\n\n[[tsa]]\n")
    own, _, last = table.partition("\n\n")
    assert own.splitlines() == [
        'name = "one"',
        'url = "https://tsa.example/"',
        f'roots = ["{missing}"]',
    ], "its own values alone, each on its line"
    assert last.startswith("The configuration is good")


def tsa_file(folder: Path, more: str = "") -> Path:
    """A configuration with one authority whose root is there."""
    root = x509.load_der_x509_certificate(signer("one").root.der)
    (folder / "root.pem").write_bytes(root.public_bytes(Encoding.PEM))
    file = folder / "ledgerd.toml"
    file.write_text(
        f'[[tsa]]\nname = "one"\nurl = "https://tsa.example/"\nroots = ["{folder}/root.pem"]\n{more}'
    )
    return file


USELESS = {
    "a token that is not there": ('bearer_token_file = "{folder}/none"', "cannot read"),
    "a token of two lines": ('bearer_token_file = "{folder}/odd"', "one line with a secret"),
    "a password that is not there": (
        'username = "u"\npassword_file = "{folder}/none"',
        "cannot read",
    ),
    "an authority that is not there": ('ca_file = "{folder}/none"', "No such file"),
    "an authority that is none": ('ca_file = "{folder}/odd"', "no certificate in it"),
    "a client that is not there": ('client_certificate_file = "{folder}/none"', "No such file"),
    "a client that is none": ('client_certificate_file = "{folder}/odd"', "for TLS"),
    "a key that is not there": (
        'client_certificate_file = "{folder}/client.pem"\nclient_key_file = "{folder}/none"',
        "No such file",
    ),
    "a key of another": (
        'client_certificate_file = "{folder}/client.pem"\nclient_key_file = "{folder}/other.key"',
        "the key does not belong to the certificate",
    ),
}


@pytest.mark.parametrize(("more", "said"), named(USELESS))
def test_files_that_can_never_work_are_refused_before_anything_is_served(
    more: str, said: str, tmp_path: Path
) -> None:
    """By check-config and by a start alike, with the authority's name and the file's."""
    (tmp_path / "odd").write_text("two\nlines\n")
    authority = TlsAuthority(tmp_path)
    authority.issue("client")
    authority.issue("other")
    file = tsa_file(tmp_path, more.format(folder=tmp_path))
    result = call("check-config", "--config", str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith("ledgerd: [[tsa]] one: ")
    assert said in result.stderr
    assert str(tmp_path) in result.stderr
    settings = load_settings(file, {"data_dir": tmp_path / "data", "verify_processes": 0})

    async def life() -> None:
        await Daemon(settings).start()

    with pytest.raises(StartError) as caught:
        asyncio.run(life())
    assert f"ledgerd: {caught.value}\n" == result.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("trusted_until = 2020-01-01T00:00:00Z", "[[tsa]] one: trusted_until was 2020-01-01"),
        ("trusted_from = 2999-01-01T00:00:00Z", "[[tsa]] one: trusted_from is 2999-01-01"),
    ],
)
def test_a_time_of_trust_that_is_over_is_shouted_about_and_not_refused(
    more: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Time goes on by itself: a daemon that ran yesterday must start today."""
    file = tsa_file(tmp_path, more)
    result = call("check-config", "--config", str(file))
    assert result.exit_code == 0
    assert result.stderr.startswith(f"WARNING: {said}")
    changes = {"data_dir": tmp_path / "data", "verify_processes": 0}
    ports = {"listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0"}

    async def life() -> None:
        made = Daemon(load_settings(file, changes | ports))
        await made.start()
        await made.stop()

    asyncio.run(life())
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_check_config_never_shows_a_password(tmp_path: Path) -> None:
    file = tsa_file(tmp_path, 'proxy = "http://user:hunter2@proxy.example:8080"')
    for form in ([], ["--json"]):
        result = call("check-config", "--config", str(file), *form)
        assert result.exit_code == 0, result.stderr
        assert "hunter2" not in result.output
        assert "http://***@proxy.example:8080" in result.stdout


def test_check_config_as_json() -> None:
    result = call("check-config", "--json", "--data-dir", "/d")
    values = json.loads(result.stdout)
    assert list(values) == list(Settings.model_fields)
    assert (values["data_dir"], values["read_threads"]) == ("/d", 2)


# keygen, version, fsck


def test_keygen_makes_a_key_and_prints_what_others_need(tmp_path: Path) -> None:
    out = tmp_path / "log.key"
    result = call("keygen", "example.com/log", "--out", str(out))
    assert result.exit_code == 0
    key = VerifierKey.parse(result.stdout.strip())
    assert load_log_key(out, "example.com/log").verifier == key
    again = call("keygen", "example.com/log", "--out", str(out))
    assert again.exit_code == 2
    assert "never replaced" in again.stderr


@pytest.mark.parametrize("origin", ["", "two words", "a+b"])
def test_keygen_refuses_names_no_log_can_have(tmp_path: Path, origin: str) -> None:
    result = call("keygen", origin, "--out", str(tmp_path / "log.key"))
    assert result.exit_code == 2
    assert "cannot name a log" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_version() -> None:
    assert call("version").stdout == f"{__version__}\n"


def test_fsck_of_nothing(tmp_path: Path) -> None:
    result = call("fsck", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "there is no ledger in" in result.stderr


def test_fsck_of_a_ledger(tmp_path: Path) -> None:
    async def life() -> None:
        made = Daemon(settings_for(tmp_path))
        await made.start()
        await made.stop()

    asyncio.run(life())
    result = call("fsck", str(tmp_path / "data"), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["problems"] == []


# The entry point


def test_the_entry_point_is_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(commands, "app", lambda: called.append("app"))
    cli.main()
    assert called == ["app"]


def test_without_the_daemons_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "ledgerd.commands")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert "pip install 'receiptledger[daemon]'" in capsys.readouterr().err


def test_a_module_of_our_own_that_is_missing_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ledgerd.commands")
    monkeypatch.setitem(sys.modules, "ledgerd.config", None)
    with pytest.raises(ModuleNotFoundError, match=r"ledgerd\.config"):
        cli.main()


# A whole life, with signals


@pytest.fixture
def process_settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `run` changes for the whole process, noted instead of done."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(sys, "setswitchinterval", lambda value: seen.update(switch=value))
    monkeypatch.setattr(gc, "freeze", lambda: seen.update(frozen=True))
    monkeypatch.setattr(gc, "set_threshold", lambda *value: seen.update(threshold=value))
    return seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemon_with_exit_code_zero(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process_settings: dict[str, Any],
) -> None:
    real = Daemon.start

    async def start(self: Daemon, **given: bool) -> None:
        await real(self, **given)
        threading.Thread(target=os.kill, args=(os.getpid(), number)).start()

    monkeypatch.setattr(Daemon, "start", start)
    assert daemon.run(settings_for(tmp_path, switch_interval_us=700)) == 0
    assert process_settings["switch"] == 0.0007


def test_a_fatal_error_ends_the_daemon_with_exit_code_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process_settings: dict[str, Any]
) -> None:
    real = Daemon.start

    async def start(self: Daemon, **given: bool) -> None:
        await real(self, **given)
        for text in ("the log contradicts itself", "a second one changes nothing"):
            self._fatal(RuntimeError(text))

    monkeypatch.setattr(Daemon, "start", start)
    assert daemon.run(settings_for(tmp_path, drain_seconds=0.1)) == 1


def test_a_last_seal_that_fails_is_left_to_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def life() -> None:
        made = Daemon(settings_for(tmp_path))
        await made.start()

        async def failing() -> None:
            raise ServiceError(Reason.UNAVAILABLE, "no space")

        made._ticker.cancel()
        made._ingest.seal = failing  # type: ignore[method-assign, assignment]
        await made.stop()

    asyncio.run(life())
    captured = capsys.readouterr()
    assert "a restart seals what is left" in captured.out + captured.err
