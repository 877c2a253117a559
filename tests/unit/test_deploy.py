"""deploy/ held against the code: nothing there may go stale, or say what is not so."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy import check_alerts, example_config
from ledgerd.anchoring.metrics import RESULTS
from ledgerd.commands import app
from ledgerd.config import AgentKey, Settings, TsaSettings
from ledgerd.config_load import load_settings
from ledgerd.metrics import RECEIPT_REASONS
from receiptledger.core.errors import Reason
from receiptledger.core.timestamp_cause import Cause

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RUNBOOK = (DEPLOY / "RUNBOOK.md").read_text("utf-8")
EXAMPLE = (DEPLOY / "ledgerd.toml").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LEDGERD_")]:
        monkeypatch.delenv(name)


# ledgerd.toml


def uncommented() -> str:
    """The example with every setting switched on."""
    return re.sub(r"(?m)^#(?=\w+ = |\[\[)", "", EXAMPLE)


def test_example_is_what_the_code_generates() -> None:
    assert example_config.render() == EXAMPLE, "run python deploy/example_config.py"
    assert load_settings(DEPLOY / "ledgerd.toml") == Settings()  # all of it is commented out


def test_example_names_every_setting_once_at_its_default(tmp_path: Path) -> None:
    values = tomllib.loads(uncommented())
    assert set(values) == set(Settings.model_fields)
    (tmp_path / "all.toml").write_text(uncommented(), "utf-8")
    loaded = load_settings(tmp_path / "all.toml")
    defaults = Settings()
    tables = {"agent_keys", "tsa"}
    paths = {"guard_path", "log_key_path", "profiles_dir"}
    for name in set(Settings.model_fields) - tables - paths:
        assert getattr(loaded, name) == getattr(defaults, name), name
    assert (loaded.guard_path, loaded.log_key_path) == (defaults.guard_file, defaults.log_key_file)
    assert loaded.profiles_dir == example_config.EXAMPLE_PROFILES
    assert loaded.agent_keys == (example_config.EXAMPLE_KEY,)
    assert loaded.tsa == (TsaSettings(**example_config.EXAMPLE_TSA),)
    assert '#trust_mode = "pinned"  # "pinned" or "registered"' in EXAMPLE
    assert "#drain_seconds = 10.0  # above 0, at most 600" in EXAMPLE


def test_example_says_what_each_setting_is_for() -> None:
    paragraphs = [" ".join(p.replace("\n# ", " ").split()) for p in EXAMPLE.split("\n\n")]
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert any(
            f"# {field.description}" in p and (f" #{name} = " in p or f"#[[{name}]]" in p)
            for p in paragraphs
        ), name
    text = " ".join(EXAMPLE.replace("\n# ", " ").split())
    for model in (AgentKey, TsaSettings):
        for name, field in model.model_fields.items():
            assert f"{name}: {field.description}" in text


def test_example_check_notices_a_stale_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "ledgerd.toml"
    monkeypatch.setattr(example_config, "EXAMPLE", copy)
    assert example_config.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert example_config.main([]) == 0
    assert example_config.main(["--check"]) == 0
    copy.write_text(copy.read_text().replace("= 250 ", "= 251 "))
    assert example_config.main(["--check"]) == 1


# ledgerd.service


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "ledgerd.service").read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


HARDENING = """
CapabilityBoundingSet= LimitCORE=0 MemoryDenyWriteExecute=yes NoNewPrivileges=yes PrivateDevices=yes
PrivateTmp=yes ProtectHome=yes ProtectKernelTunables=yes ProtectSystem=strict RestrictNamespaces=yes
SystemCallFilter=@system-service SystemCallFilter=~@privileged UMask=0077 User=ledgerd Group=ledgerd
"""


def test_unit_drains_and_does_not_loop() -> None:
    found = unit()
    assert found["Type"] == ["exec"]
    assert found["KillSignal"] == ["SIGTERM"]
    # The last seal, the flush and the close come on top of what streams get.
    assert int(found["TimeoutStopSec"][0]) >= Settings().drain_seconds + 30
    assert found["Restart"] == ["on-failure"]
    assert found["RestartPreventExitStatus"] == ["2"]
    assert int(found["LimitNOFILE"][0]) > 512 + Settings().max_calls


def test_unit_is_confined() -> None:
    found = unit()
    for word in HARDENING.split():
        name, _, value = word.partition("=")
        assert value in found[name], word
    assert found["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    # What it writes: the default data folder and the runbook's guard lie in its state folders.
    folders = [Path("/var/lib") / name for name in found["StateDirectory"][0].split()]
    assert Path(found["WorkingDirectory"][0]) / Settings().data_dir == folders[0] / "data"
    assert f'guard_path = "{folders[1]}/guard"|' in RUNBOOK


def test_unit_is_read_by_systemd_without_complaint(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("SKIPPED: systemd-analyze is not on this machine, the unit was NOT verified")
    text = (DEPLOY / "ledgerd.service").read_text("utf-8")
    installed = text.replace("/opt/ledgerd/bin/ledgerd", sys.executable)
    assert installed != text

    def complaints(content: str) -> str:
        (tmp_path / "ledgerd.service").write_text(content)
        command = [analyze, "verify", str(tmp_path / "ledgerd.service")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # Units of the machine itself may have their faults; the exit code ignores unknown names.
        return "\n".join(li for li in done.stderr.splitlines() if "ledgerd.service" in li)

    assert complaints(installed) == ""
    assert "LimitNOFLIE" in complaints(installed.replace("LimitNOFILE", "LimitNOFLIE"))


# Dockerfile


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2]) for line in joined.splitlines() if line]


def copied() -> set[str]:
    """What the image takes from the repository."""
    arguments = [text.split() for name, text in instructions() if name == "COPY"]
    return {source for words in arguments if "--from" not in words[0] for source in words[:-1]}


def test_image_copies_what_exists_and_what_the_build_needs() -> None:
    sources = copied()
    for source in sources:
        assert (ROOT / source).exists(), source
    needed = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sources == needed | {package.split("/")[0] for package in packages}
    assert any("'.[daemon]'" in text for name, text in instructions() if name == "RUN")
    assert "daemon" in PROJECT["project"]["optional-dependencies"]


def test_build_context_is_what_is_copied_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules[1:] if rule[0] == "!"} == copied()


def test_image_runs_as_nobody_in_particular() -> None:
    found = instructions()
    last = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    assert [text for name, text in found[:last] if name == "USER"] == []
    assert [text for name, text in found[last:] if name == "USER"] == ["10001:10001"]
    assert dict(found)["STOPSIGNAL"] == "SIGTERM"
    assert "/readyz" in dict(found)["HEALTHCHECK"]
    assert all("slim" in text for name, text in found if name == "FROM")
    secret = re.compile("(?i)secret|token|password|private|log.key")
    for name, text in found:
        assert name not in ("ENV", "ARG", "COPY") or not secret.search(text), text


def test_image_environment_fits_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(instructions())
    variables = re.findall(r"(LEDGERD_\w+)=(\S+)", found["ENV"])
    for name, value in variables:
        monkeypatch.setenv(name, value)
    settings = load_settings()  # raises on a name that is no setting
    volumes = re.findall(r'"(.*?)"', found["VOLUME"])
    data = Path(found["WORKDIR"]) / settings.data_dir
    assert [str(data.parent), str(settings.guard_file.parent)] == volumes
    ports = [address.rpartition(":")[2] for address in (settings.listen, settings.http_listen)]
    assert found["EXPOSE"].split() == ports
    assert settings.listen.startswith("0.0.0.0:")


# prometheus.yml, alerts.yml


class Alert(NamedTuple):
    """One rule, by regular expression: what cannot be read so promtool refuses anyway."""

    name: str
    text: str
    expr: str

    def item(self, name: str) -> str:
        match = re.search(rf"(?m)^ +{name}: (.+)$", self.text)
        assert match is not None, f"{self.name} has no {name}"
        return match[1]


def alerts() -> list[Alert]:
    parts = re.split(r"(?m)^ +- alert: ", (DEPLOY / "alerts.yml").read_text("utf-8"))[1:]
    found = []
    for part in parts:
        name, _, text = part.partition("\n")
        match = re.search(r"(?s)expr: (?:>-\n)?(.*?)\n +(?:for|labels):", text)
        assert match is not None
        found.append(Alert(name, text, " ".join(match[1].split())))
    return found


def exposed() -> dict[str, tuple[str, set[str]]]:
    """Metric -> type and labels, as /metrics shows them."""
    page = check_alerts.exposition().decode()
    found: dict[str, tuple[str, set[str]]] = {
        name: (kind, set()) for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page)
    }
    for series, labels in re.findall(r"(?m)^([a-z_]+)(?:\{(.*)\})? ", page):
        name = re.sub(r"_(bucket|count|sum)$", "", series) if series not in found else series
        found[name][1].update(set(re.findall(r'(\w+)="', labels)) - {"le"})
    return found


def test_every_alert_is_explained_in_the_runbook_and_tested() -> None:
    section = RUNBOOK.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    explained = dict(re.findall(r"(?m)^### (\w+)\n\n(\w+)\.", section))
    assert explained == {alert.name: alert.item("severity") for alert in alerts()}
    assert set(explained.values()) == {"page", "ticket"}
    tests = (DEPLOY / "alerts_test.yml").read_text("utf-8")
    for alert in alerts():
        assert alert.item("runbook") == f"RUNBOOK.md#{alert.name.lower()}"
        assert alert.item("summary")
        assert alert.item("description")
        checks = re.findall(rf"alertname: {alert.name}\n +exp_alerts:(.*)", tests)
        assert set(checks) == {"", " []"}, f"{alert.name} fires in one test, is silent in another"


def test_alerts_ask_for_series_that_exist() -> None:
    metrics = exposed()
    for alert in alerts():
        for series in re.findall(r"\b(?:ledger|grpc|process)_\w+", alert.expr):
            assert series in metrics or series.removesuffix("_bucket") in metrics, series
        for values in re.findall(r'reason=~?"([^"]+)"', alert.expr):
            assert {Reason(value) for value in values.split("|")} <= set(RECEIPT_REASONS)
        for values in re.findall(r'result=~?"([^"]+)"', alert.expr):
            assert set(values.split("|")) <= set(RESULTS)


def test_scrape_config_fits_the_daemon_and_the_alerts() -> None:
    text = (DEPLOY / "prometheus.yml").read_text("utf-8")
    assert re.findall(r"job_name: (\w+)", text) == ["ledgerd"]
    jobs = {job for alert in alerts() for job in re.findall(r'job="(\w+)"', alert.expr)}
    assert jobs == {"ledgerd"}
    assert f'- targets: ["{Settings().http_listen}"]' in text
    assert "\n  - alerts.yml\n" in text


@pytest.fixture(scope="module")
def promtool() -> Path:
    found = check_alerts.find_promtool(check_alerts.TOOLS)
    if found is None:
        pytest.skip("SKIPPED: promtool is not on this machine, alerts were NOT tested: make alerts")
    return found


def test_promtool_is_content(promtool: Path) -> None:
    assert check_alerts.run_checks(promtool, DEPLOY) == 0


@pytest.mark.parametrize("name", [alert.name for alert in alerts()])
def test_alert_tests_notice_a_broken_alert(promtool: Path, tmp_path: Path, name: str) -> None:
    """An alert that never fires, and one that always does, each fail the rules' own tests."""
    (alert,) = [alert for alert in alerts() if alert.name == name]
    rules = (DEPLOY / "alerts.yml").read_text("utf-8")
    head, *groups = (DEPLOY / "alerts_test.yml").read_text("utf-8").split("\n  - interval:")
    groups = [group for group in groups if f"alertname: {name}\n" in group]
    (tmp_path / "tests.yml").write_text("\n  - interval:".join([head, *groups]))

    def run(rules: str) -> int:
        (tmp_path / "alerts.yml").write_text(rules)
        command = [str(promtool), "test", "rules", "tests.yml"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode

    assert run(rules) == 0
    for broken in ("vector(1) > 2", "vector(1) > 0"):
        text = re.sub(r"(?s)expr: .*?(?=\n +(for|labels):)", f"expr: {broken}", alert.text)
        assert run(rules.replace(alert.text, text)) == 1, broken


def test_make_alerts_counts_failures(
    promtool: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for file in DEPLOY.glob("*.yml"):
        shutil.copy(file, tmp_path)
    (tmp_path / "prometheus.yml").write_text("rule_files: [missing.yml]\n")
    monkeypatch.setattr(check_alerts, "DEPLOY", tmp_path)
    assert check_alerts.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"


def test_make_alerts_says_loudly_that_it_did_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(check_alerts, "TOOLS", tmp_path / "tools")
    assert check_alerts.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("SKIPPED: promtool is not on this machine")
    assert lines[-1] == f"0 passed, 0 failed, {len(check_alerts.CHECKS)} skipped"


# RUNBOOK.md


def test_runbook_documents_every_metric_and_no_other() -> None:
    row = r"(?m)^\| `((?:ledger|grpc|process|python)_\w+)` \| (\w+) \| (.*?) \|"
    rows = re.findall(row, RUNBOOK)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert len(documented) == len(rows)
    metrics = exposed()
    if sys.platform != "linux":  # where /proc is not, the library exposes less
        documented = {n: d for n, d in documented.items() if not n.startswith("process_")}
    assert documented == metrics


def anchors() -> set[str]:
    headings = re.findall(r"(?m)^#+ (.+)$", RUNBOOK)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_runbook_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", RUNBOOK)
    assert links
    for link in links:
        assert link[1:] in anchors() if link[0] == "#" else (DEPLOY / link).is_file(), link


def test_runbook_names_only_what_exists() -> None:
    """A renamed setting or metric must be renamed here too."""
    readyz = {"store_healthy", "tree_size", "unsealed_receipts", "store_errors"}
    readyz |= {"anchored_size", "anchor_lag_seconds", "unanchored_leaves", "anchors_overdue"}
    tsa = {*TsaSettings.model_fields, *Cause}
    known = {*Settings.model_fields, *exposed(), *readyz, *Reason, *tsa, "log_key"}
    text = re.sub(r"(?ms)^```.*?^```$", "", RUNBOOK)
    labels = {label for _, found in exposed().values() for label in found}
    for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text):
        assert name in known | labels, name


# Every message of these is in the runbook; of the others, those that are may be quoted.
REFUSALS = {"GuardError", "LogKeyError", "RecoveryError", "StoreInUseError", "ChangedFormatError"}
OTHERS = {"StartError", "OSError"}


def code_messages(errors: set[str]) -> set[str]:
    """Messages of these errors in ledgerd's code, with <> where a value goes."""
    found = set()
    for path in (ROOT / "ledgerd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(ast.Name(name), [ast.Constant(str(text))]) if name in errors:
                    found.add(text)
                case ast.Call(ast.Name(name), [ast.JoinedStr(parts)]) if name in errors:
                    texts = (str(p.value) if isinstance(p, ast.Constant) else "<>" for p in parts)
                    found.add("".join(texts))
    return found


def test_runbook_quotes_messages_verbatim_and_completely() -> None:
    quoted = [text.strip() for text in re.findall(r"(?ms)^```message\n(.*?)^```$", RUNBOOK)]
    plain = {re.sub(r"<[a-z]+>", "<>", text) for text in quoted}
    assert len(plain) == len(quoted)
    assert plain <= code_messages(REFUSALS | OTHERS)
    assert code_messages(REFUSALS) <= plain


def test_runbook_quotes_events_that_are_logged() -> None:
    """Whoever searches the journal for them must find them."""
    texts = {
        node.value
        for path in (ROOT / "ledgerd").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    flat = " ".join(RUNBOOK.split())
    said = re.findall(r"(?:event|journal says) `([^`]+)`", flat)
    said += re.findall(r"`((?:anchors are|receipts are) [^`]+)`", flat)
    assert {"anchors are overdue", "anchors are no longer overdue"} <= set(said)
    assert {"receipts are refused from now on", "receipts are taken again"} <= set(said)
    for event in said:
        assert any(text.startswith(event) for text in texts), event


def test_runbook_names_commands_that_there_are() -> None:
    flat = " ".join(RUNBOOK.split())
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    for name in re.findall(r"[`/]ledgerd ([a-z][a-z-]+)", flat):
        assert name in commands, name
