"""Every setting: where its value comes from, what it may be, and what is said when it may not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ledgerd.config import Settings, TsaSettings
from ledgerd.config_load import ConfigError, load_settings
from receiptledger.core.canonical import DEFAULT_LIMITS
from receiptledger.core.encoding import base64url_encode
from tests.helpers.cases import named
from tests.helpers.other_agents import EcAgent

KEY = base64url_encode(bytes(range(32)))
AGENT_KEYS = [
    {"agent": "agent-1", "public_key": KEY},
    {"agent": "agent-2", "public_key": f"ES256:{base64url_encode(EcAgent().public_key)}"},
]

TSA = {"name": "one", "url": "https://tsa.example/", "roots": ["root.pem"]}
TWO = {**TSA, "name": "two", "url": "https://two.example/"}

# For each setting: its default, two other good values as TOML would give them, and bad ones.
SETTINGS: dict[str, tuple[Any, Any, Any, tuple[Any, ...]]] = {
    "data_dir": (Path("data"), "/var/lib/ledger", "elsewhere", (5,)),
    "guard_path": (None, "/mnt/guard", "guard", (5,)),
    "log_key_path": (None, "/etc/log.key", "log.key", (True,)),
    "origin": (
        "localhost/receipts",
        "example.com/log",
        "log",
        ("", "two words", "a+b", "line\nbreak", 5),
    ),
    "listen": (
        "127.0.0.1:7070",
        "0.0.0.0:1",
        "[::1]:0",
        ("7070", ":7070", "host:", "host:65536", "host:-1", "host:7a", "host:\u0661"),
    ),
    "http_listen": ("127.0.0.1:7071", "0.0.0.0:2", "host:0", ("", "host:1_0", "host: 1")),
    "trust_mode": ("pinned", "registered", "pinned", ("any", "", 1)),
    "agent_keys": (
        (),
        AGENT_KEYS,
        AGENT_KEYS * 2,
        (
            "agent-1",
            [{"agent": "a"}],
            [{"agent": "", "public_key": KEY}],
            [{"agent": "a", "public_key": KEY + "="}],
            [{"agent": "a", "public_key": KEY[:-1]}],
            [{"agent": "a", "public_key": KEY, "note": "x"}],
            [{"agent": "a", "public_key": "ES256:" + KEY}],
        ),
    ),
    "profiles_dir": (None, "/etc/ledgerd/profiles", "profiles", (5,)),
    "seal_interval_ms": (250, 10, 60_000, (9, 60_001, "soon", 10.5, None)),
    "seal_max_leaves": (4_096, 1, 10**6, (0, -1)),
    "max_receipt_bytes": (65_536, 256, 1_024, (255, 65_537, "64k")),
    "max_batch_receipts": (1_024, 1, 16_384, (0, 16_385)),
    "max_message_bytes": (1_048_576, 66_560, 67_108_864, (4_095, 67_108_865)),
    "max_batches_in_flight": (4, 1, 256, (0, 257)),
    "max_streams": (1_024, 1, 2_000, (0,)),
    "max_watchers": (256, 1, 2_000, (0,)),
    "max_calls": (4_096, 1_281, 100_000, (0, 1_280)),
    "max_group_receipts": (4_096, 1, 10**6, (0,)),
    "max_chains_cached": (100_000, 1, 10**7, (0,)),
    "max_forks_per_chain": (16, 0, 1_024, (-1, 1_025)),
    "max_proof_cache_bytes": (67_108_864, 1_048_576, 2**31, (1_048_575,)),
    "park_wait_ms": (500, 0, 60_000, (-1, 60_001, 0.5)),
    "park_max_receipts": (1_024, 1, 65_536, (0, 65_537)),
    "park_max_bytes": (16_777_216, 65_536, 2**31, (65_535,)),
    "tsa": (
        (),
        [TSA],
        [TSA, {**TWO, "strict_only": True}],
        (
            "one",
            [{"name": "one"}],
            [{**TSA, "roots": []}],
            [{**TSA, "name": "One"}],
            [{**TSA, "note": "x"}],
            [TSA, TSA],
        ),
    ),
    "anchor_interval_seconds": (600, 10, 3_600, (9, 86_401)),
    "anchor_max_leaves": (10_000, 1, 10**6, (0,)),
    "anchor_min_spacing_seconds": (20, 1, 3_600, (0, 3_601)),
    "anchor_heartbeat_seconds": (86_400, 60, 30 * 86_400, (59, 30 * 86_400 + 1)),
    "anchor_quorum": (1, 1, 1, (0, 2, 16, 17)),
    "max_unanchored_seconds": (14_400, 601, 30 * 86_400, (59, 600, 30 * 86_400 + 1)),
    "unanchored_policy": ("warn", "warn", "warn", ("refuse", "ignore", "")),
    "evidence_delay_hours": (24, 0, 48, (-1, 49)),
    "renew_before_days": (180, 2, 730, (0, 1, 731)),
    "max_quarantined": (1_000, 0, 100_000, (-1, 100_001)),
    "verify_threads": (0, 1, 256, (-1, 257)),
    "verify_processes": (-1, 0, 256, (-2, 257)),
    "read_threads": (2, 1, 64, (0, 65)),
    "switch_interval_us": (500, 50, 100_000, (49, 100_001)),
    "seal_wait_seconds": (30.0, 0.5, 600, (0, -1, 600.5, "nan")),
    "drain_seconds": (10.0, 0.5, 600, (0, -1, 600.5, "nan")),
    "keepalive_seconds": (30, 5, 3_600, (4, 3_601)),
    "reflection": (True, False, True, ("maybe", 2)),
    "log_level": ("info", "debug", "error", ("INFO", "trace")),
    "log_format": ("json", "console", "json", ("text",)),
}


TABLES = ("agent_keys", "tsa")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("LEDGERD_")]:
        monkeypatch.delenv(name)


def toml(values: dict[str, Any]) -> str:
    """Simple values as TOML: JSON's spelling is one of TOML's."""
    lines = []
    for name, value in values.items():
        if name in TABLES:
            for item in value:
                inner = "".join(f"{key} = {json.dumps(text)}\n" for key, text in item.items())
                lines.append(f"\n[[{name}]]\n{inner}")
        else:
            lines.append(f"{name} = {json.dumps(value)}\n")
    return "".join(lines)


def write(folder: Path, text: str) -> Path:
    path = folder / "ledgerd.toml"
    path.write_text(text, "utf-8")
    return path


def as_set(name: str, value: Any) -> Any:
    """What a setting is after loading."""
    if name.endswith(("_dir", "_path")):
        return Path(value)
    if name == "agent_keys":
        return [(item["agent"], item["public_key"]) for item in value]
    if name == "tsa":
        return tuple(TsaSettings(**item) for item in value)
    return value


def shown(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    return [(item.agent, item.public_key) for item in value] if name == "agent_keys" else value


def environment(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv(f"LEDGERD_{name.upper()}", text)


def test_every_setting_is_here_and_described() -> None:
    assert list(SETTINGS) == list(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        assert (field.description or "").endswith("."), name


def test_defaults() -> None:
    settings = load_settings()
    assert {name: getattr(settings, name) for name in SETTINGS} == {
        name: default for name, (default, _, _, _) in SETTINGS.items()
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_flag_before_environment_before_file_before_default(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, one, other, _ = SETTINGS[name]
    file = write(tmp_path, toml({name: one}))
    assert shown(load_settings(file), name) == as_set(name, one)
    environment(monkeypatch, name, other)
    assert shown(load_settings(file), name) == as_set(name, other)
    assert shown(load_settings(), name) == as_set(name, other)
    assert shown(load_settings(file, {name: one}), name) == as_set(name, one)
    monkeypatch.undo()
    assert shown(load_settings(), name) == ([] if name == "agent_keys" else default)


@pytest.mark.parametrize("source", ["file", "environment", "flag"])
@pytest.mark.parametrize("name", SETTINGS)
def test_bad_values_are_refused_by_name(
    name: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bad in SETTINGS[name][3]:
        file, flags = None, {}
        if source == "file":
            if bad is None or (name in TABLES and isinstance(bad, str)):
                continue
            file = write(tmp_path, toml({name: bad}))
        elif source == "environment":
            if isinstance(bad, int | bool) and isinstance(SETTINGS[name][1], str):
                continue  # every text is a path or a name
            environment(monkeypatch, name, bad)
        else:
            flags = {name: bad}
        with pytest.raises(ConfigError) as caught:
            load_settings(file, flags)
        words = str(caught.value)
        assert name in words, f"{bad!r}: {words}"


@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if isinstance(s[0], int | float)])
def test_numbers_may_come_as_text_from_the_command_line(name: str) -> None:
    one = SETTINGS[name][1]
    assert getattr(load_settings(None, {name: str(one).lower()}), name) == one


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("seal_interval", "seal_interval_ms"), ("datadir", "data_dir"), ("max_stream", "max_streams")],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(
    wrong: str, nearest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = rf"unknown setting '{wrong}' in %s; did you mean {nearest}\?"
    file = write(tmp_path, f"{wrong} = 1\n")
    with pytest.raises(ConfigError, match=expected % str(file)):
        load_settings(file)
    with pytest.raises(ConfigError, match=expected % "the command line"):
        load_settings(None, {wrong: "1"})
    monkeypatch.setenv(f"LEDGERD_{wrong.upper()}", "1")
    with pytest.raises(ConfigError, match=expected % "the environment"):
        load_settings()


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'zzzzqqqq' in the command line$"):
        load_settings(None, {"zzzzqqqq": "1"})


def test_a_setting_in_the_environment_is_spelled_in_upper_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ledgerd_listen", "0.0.0.0:1")
    with pytest.raises(ConfigError, match="ledgerd_listen"):
        load_settings()


def test_what_kubernetes_sets_beside_a_service_named_ledgerd_is_not_for_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "SERVICE_HOST",
        "SERVICE_PORT_GRPC",
        "PORT",
        "PORT_7070_TCP",
        "PORT_7070_TCP_ADDR",
    ):
        monkeypatch.setenv(f"LEDGERD_{name}", "tcp://10.0.0.1:7070")
    assert load_settings().listen == "127.0.0.1:7070"
    monkeypatch.setenv("LEDGERD_PORTS", "1")
    with pytest.raises(ConfigError, match="unknown setting 'ports'"):
        load_settings()


@pytest.mark.parametrize(
    ("values", "words"),
    named(
        {
            "receipt fills the message": (
                {"max_receipt_bytes": 4_096, "max_message_bytes": 5_119},
                "max_message_bytes must exceed max_receipt_bytes",
            ),
            "no call left for reads": (
                {"max_streams": 10, "max_watchers": 6, "max_calls": 16},
                "max_calls must exceed",
            ),
            "overdue before it is due": (
                {"anchor_interval_seconds": 3_600, "max_unanchored_seconds": 3_600},
                "max_unanchored_seconds must exceed anchor_interval_seconds",
            ),
            "asked too seldom": (
                {
                    "anchor_interval_seconds": 10,
                    "anchor_min_spacing_seconds": 60,
                    "max_unanchored_seconds": 60,
                },
                "max_unanchored_seconds must exceed anchor_min_spacing_seconds",
            ),
            "renewed too late": (
                {"renew_before_days": 1},
                "renew_before_days must exceed anchor_heartbeat_seconds",
            ),
        }
    ),
)
def test_settings_that_do_not_fit_together(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_settings(None, values)
    last = list(values)[-1]
    good = values | {last: values[last] + 1}
    assert getattr(load_settings(None, good), last) == good[last]


@pytest.mark.parametrize(
    ("values", "words"),
    named(
        {
            "a quorum of more than there are": (
                {"tsa": [TSA, {**TWO, "authority": "one"}], "anchor_quorum": 2},
                "anchor_quorum is 2, but the ..tsa.. name 1 authorities",
            ),
            "a quorum of none": (
                {"anchor_quorum": 2},
                "anchor_quorum is 2, but there is no ..tsa..",
            ),
            "two of one name": ({"tsa": [TSA, TSA]}, "two ..tsa.. have the same name one"),
            "one operator under two names": (
                {"tsa": [TSA, {**TWO, "url": "HTTPS://TSA.example:443/"}]},
                "the ..tsa.. one and two have the same url, .* give both the same authority",
            ),
            "refusing without a way out": (
                {"unanchored_policy": "refuse"},
                "unanchored_policy refuse needs a ..tsa..",
            ),
        }
    ),
)
def test_timestamp_authorities_that_do_not_fit(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_settings(None, values)
    both = {"tsa": [TSA, TWO]}
    assert load_settings(None, values | both).tsa[1].authority == "two"


def test_no_receipt_is_taken_that_a_verifier_would_not_read() -> None:
    """Verifiers read receipts under core's own limits; a longer one could be kept, never proven."""
    largest = load_settings(None, {"max_receipt_bytes": DEFAULT_LIMITS.max_bytes})
    assert largest.max_receipt_bytes == DEFAULT_LIMITS.max_bytes
    with pytest.raises(ConfigError, match="max_receipt_bytes"):
        load_settings(None, {"max_receipt_bytes": DEFAULT_LIMITS.max_bytes + 1})


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, {"read_threads": 0, "log_level": "loud", "listen": "x"})
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "setting listen",
        "setting read_threads",
        "setting log_level",
    ]
    assert "got 0" in lines[1]
    assert "got 'loud'" in lines[2]


@pytest.mark.parametrize(
    ("content", "words"),
    named(
        {
            "not TOML": (b"listen = \n", "is not TOML"),
            "not UTF-8": (b'origin = "\xff"\n', "is not TOML"),
            "a name twice": (b"read_threads = 1\nread_threads = 2\n", "is not TOML"),
        }
    ),
)
def test_files_that_cannot_be_read(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        load_settings(file)
    assert str(file) in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration file"):
        load_settings(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot read the configuration file"):
        load_settings(tmp_path)


@pytest.mark.parametrize("text", ["not json", "[{]", ""])
def test_keys_in_the_environment_that_are_no_json(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERD_AGENT_KEYS", text)
    with pytest.raises(ConfigError, match="agent_keys"):
        load_settings()


def test_places_follow_from_the_data_folder_unless_said_otherwise() -> None:
    settings = load_settings(None, {"data_dir": "/d"})
    assert settings.guard_file == Path("/d/guard")
    assert settings.log_key_file == Path("/d/log.key")
    assert settings.database == Path("/d/db")
    moved = load_settings(None, {"data_dir": "/d", "guard_path": "/g", "log_key_path": "/k"})
    assert (moved.guard_file, moved.log_key_file) == (Path("/g"), Path("/k"))


def test_an_enrolled_key_is_32_bytes() -> None:
    settings = load_settings(None, {"agent_keys": AGENT_KEYS})
    assert settings.agent_keys[0].key == bytes(range(32))


def test_settings_cannot_change_after_loading() -> None:
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.read_threads = 3


# What is said of a table.

WRONG_TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "a typo": (
        {**TSA, "rots": ["a.pem"]},
        "unknown setting 'rots' in [[tsa]] one; did you mean roots?",
    ),
    "a missing member": (
        {"name": "one", "roots": ["a.pem"]},
        "[[tsa]] one: url is missing. Where requests are posted, http or https.",
    ),
    "no name": (
        {"url": "https://a/", "roots": ["a.pem"]},
        (
            "[[tsa]] number 1: name is missing. Short name, in every anchor leaf, metric and report. For "
            "ever: a renamed TSA is another one."
        ),
    ),
    "a name in capitals": (
        {**TSA, "name": "One"},
        (
            "[[tsa]] One: name: expected 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or a "
            "digit, got 'One'"
        ),
    ),
    "a name that is none": (
        {**TSA, "name": 5},
        "[[tsa]] number 1: name: expected a text, got 5",
    ),
    "no roots": (
        {**TSA, "roots": []},
        "[[tsa]] one: roots: expected a list with at least 1 of them, got []",
    ),
    "roots that are no list": (
        {**TSA, "roots": "a.pem"},
        "[[tsa]] one: roots: expected a list, got 'a.pem'",
    ),
    "a bad policy": (
        {**TSA, "policies": ["1.x.3"]},
        "[[tsa]] one: policies: expected object identifiers such as 1.3.6.1.4.1.32473.1, got '1.x.3'",
    ),
    "an identifier nobody has": (
        {**TSA, "request_policy": "1.40.9"},
        (
            "[[tsa]] one: request_policy: expected object identifiers such as 1.3.6.1.4.1.32473.1, got "
            "'1.40.9'"
        ),
    ),
    "too long": (
        {**TSA, "timeout_seconds": 61},
        "[[tsa]] one: timeout_seconds: expected at most 60.0, got 61",
    ),
    "no time": (
        {**TSA, "timeout_seconds": 0},
        "[[tsa]] one: timeout_seconds: expected more than 0.0, got 0",
    ),
    "an old digest": (
        {**TSA, "hash": "sha1"},
        "[[tsa]] one: hash: expected 'sha256', 'sha384' or 'sha512', got 'sha1'",
    ),
    "a time without a zone": (
        {**TSA, "trusted_until": "2026-01-01T00:00:00"},
        (
            "[[tsa]] one: trusted_until: expected a time with its zone, such as 2026-01-01T00:00:00Z, got "
            "'2026-01-01T00:00:00'"
        ),
    ),
    "members that do not fit": (
        {**TSA, "username": "u"},
        "[[tsa]] one: username and password_file go together",
    ),
}


@pytest.mark.parametrize(("table", "said"), named(WRONG_TABLES))
def test_a_wrong_table_is_called_by_its_name_and_told_in_plain_words(
    table: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, from a file as from the environment."""
    with pytest.raises(ConfigError) as from_file:
        load_settings(write(tmp_path, toml({"tsa": [table]})))
    environment(monkeypatch, "tsa", [table])
    with pytest.raises(ConfigError) as from_environment:
        load_settings()
    assert str(from_file.value) == str(from_environment.value) == said


def test_the_second_of_two_tables_is_the_one_that_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^\[\[tsa\]\] two: url: "):
        load_settings(None, {"tsa": [TSA, {**TWO, "url": "file:///x"}]})
    keys = [*AGENT_KEYS, {"agent": "agent-2", "public_key": "x"}]
    with pytest.raises(ConfigError, match=r"^\[\[agent_keys\]\] agent-2: public_key: "):
        load_settings(None, {"agent_keys": keys})


@pytest.mark.parametrize("name", SETTINGS)
def test_no_message_shows_the_library_that_found_the_mistake(name: str) -> None:
    for bad in SETTINGS[name][3]:
        with pytest.raises(ConfigError) as caught:
            load_settings(None, {name: bad})
        for foreign in (
            "Pydantic",
            "pydantic",
            "Value error",
            "Input should",
            "Tuple",
            "setting settings",
        ):
            assert foreign not in str(caught.value)
        for line in str(caught.value).splitlines():
            assert line.count(", got ") <= 1, line


SECRET = "hunter2"
TELLTALE: dict[str, dict[str, Any]] = {
    "in the url": {"url": f"https://u:{SECRET}@tsa.example/"},
    "without a user": {"url": f"https://:{SECRET}@tsa.example/"},
    "as the user": {"url": f"https://{SECRET}@tsa.example/"},
    "with a slash in it": {"url": f"https://u:{SECRET}/x@tsa.example/"},
    "with a hash in it": {"url": f"https://u:x#{SECRET}@tsa.example/"},
    "with an at in it": {"url": f"https://u:{SECRET}@x@tsa.example/"},
    "with a space in it": {"url": f"https://u:{SECRET} x@tsa.example/"},
    "with a port for a host": {"url": f"https://u:{SECRET}@:99999/"},
    "under another scheme": {"url": f"ftp://u:{SECRET}@tsa.example/"},
    "without a scheme": {"url": f"u:{SECRET}@tsa.example"},
    "in a list": {"url": [f"https://u:{SECRET}@tsa.example/"]},
    "in a typo": {"uri": f"https://u:{SECRET}@tsa.example/"},
    "in a proxy": {"proxy": f"socks5://u:{SECRET}@proxy.example/"},
    "in a proxy with a fragment": {"proxy": f"http://u:{SECRET}@proxy.example/#x"},
}


@pytest.mark.parametrize("changes", named(TELLTALE))
@pytest.mark.parametrize("source", ["file", "environment", "flag"])
def test_a_password_in_a_url_is_never_shown(
    changes: dict[str, Any], source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, file, flags = TSA | changes, None, {}
    if source == "file":
        file = write(tmp_path, toml({"tsa": [table]}))
    elif source == "environment":
        environment(monkeypatch, "tsa", [table])
    else:
        flags = {"tsa": [table]}
    with pytest.raises(ConfigError) as caught:
        load_settings(file, flags)
    assert "[[tsa]] one" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
