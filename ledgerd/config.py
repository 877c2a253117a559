"""Every setting of the daemon: its unit, default and reason, in one place.

Where the values come from is `config_load`; deploy/ carries an example file that a test holds against
this class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ledgerd.tsa.settings import TsaSettings
from receiptledger.core.canonical import DEFAULT_LIMITS
from receiptledger.core.errors import LedgerError
from receiptledger.core.note import NoteSigner
from receiptledger.core.public_key import parse_public_key

__all__ = ["ENV_PREFIX", "AgentKey", "Settings", "TsaSettings"]

ENV_PREFIX = "LEDGERD_"
KIB, MIB = 1024, 1024 * 1024


class AgentKey(BaseModel):
    """One enrolled key: `[[agent_keys]]` in the TOML file."""

    model_config = {"extra": "forbid", "frozen": True}

    agent: str = Field(min_length=1, description="Agent id as its receipts carry it.")
    public_key: str = Field(
        description="Public key in lower-case hex or unpadded base64url: an Ed25519 key as it is, another "
        "one after ES256: (the uncompressed point) or ML-DSA-65:."
    )

    @field_validator("public_key")
    @classmethod
    def _is_a_key(cls, value: str) -> str:
        parse_public_key(value)
        return value

    @property
    def key(self) -> bytes:
        """Its bytes; their number tells its algorithm."""
        return parse_public_key(self.public_key)


def _address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"expected HOST:PORT with a port 0..65535, got {value!r}")
    return value


Count = Annotated[int, Field(ge=1)]


class Settings(BaseSettings):
    """The daemon's settings. Names are stable; units are the last word of a name where they have one."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    # Where things are.
    data_dir: Path = Field(
        default=Path("data"),
        description="Folder of the database. One daemon per folder; a lock enforces it.",
    )
    guard_path: Path | None = Field(
        default=None,
        description="File with the last signed checkpoint; default DATA_DIR/guard. Put it on another "
        "disk than the data, and out of its backups: it is what notices a stale restore.",
    )
    log_key_path: Path | None = Field(
        default=None,
        description="File with the log's signing key; default DATA_DIR/log.key, created with mode 0600 "
        "at the first start of a new ledger. Keep a copy: without it the log cannot go on.",
    )
    origin: str = Field(
        default="localhost/receipts",
        description="Name of the log in its checkpoints and keys, a URL without scheme. For ever.",
    )

    # Who may connect, and how.
    listen: str = Field(
        default="127.0.0.1:7070",
        description="HOST:PORT of gRPC; port 0 picks a free one. No TLS: keep it on a private network.",
    )
    http_listen: str = Field(
        default="127.0.0.1:7071",
        description="HOST:PORT of HTTP: checkpoint, tiles, metrics, health; port 0 picks a free one.",
    )

    # Whose receipts are accepted.
    trust_mode: Literal["pinned", "registered"] = Field(
        default="pinned",
        description="registered: only enrolled agent_keys. pinned: agents without an enrolled key have "
        "the first key of a new chain pinned and logged; good for trying it out.",
    )
    agent_keys: tuple[AgentKey, ...] = Field(
        default=(), description="Enrolled keys; an agent may have several."
    )
    profiles_dir: Path | None = Field(
        default=None,
        description="Folder with further receipt formats, one in each *.toml (proto/FORMATS.md), beside "
        "the built-in ones. Read at the start. Keep a format for as long as its receipts, and give it a "
        "new version when you change it.",
    )

    # Sealing.
    seal_interval_ms: Annotated[int, Field(ge=10, le=60_000)] = Field(
        default=250,
        description="Milliseconds between seals while there is something to seal. Lower: fresher "
        "proofs, more signatures and larger history; 250 keeps a SEALED ack well under half a second.",
    )
    seal_max_leaves: Count = Field(
        default=4_096,
        description="Leaves that trigger a seal before the interval is over; bounds the work of one seal.",
    )

    # Limits.
    max_receipt_bytes: Annotated[int, Field(ge=256, le=DEFAULT_LIMITS.max_bytes)] = Field(
        default=64 * KIB,
        description="Bytes of one receipt; real ones are 0.5 to 1.5 KiB. No more than 64 KiB: "
        "verifiers read no longer ones, so they could never be proven.",
    )
    max_batch_receipts: Annotated[int, Field(ge=1, le=16_384)] = Field(
        default=1_024, description="Receipts of one batch; beyond 256 throughput gains little."
    )
    max_message_bytes: Annotated[int, Field(ge=4 * KIB, le=64 * MIB)] = Field(
        default=1 * MIB,
        description="Bytes of one gRPC message; larger ones are refused before they are parsed.",
    )
    max_batches_in_flight: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4,
        description="Unanswered batches per stream; beyond it the daemon stops reading (flow control).",
    )
    max_streams: Count = Field(
        default=1_024,
        description="Open Append streams; each may hold max_batches_in_flight messages in memory.",
    )
    max_watchers: Count = Field(default=256, description="Open WatchCheckpoints streams.")
    max_calls: Count = Field(
        default=4_096,
        description="Open gRPC calls of all kinds; leave room for reads above streams and watchers.",
    )
    max_group_receipts: Count = Field(
        default=4_096,
        description="Receipts of one group commit; bounds the time between two fsyncs.",
    )
    max_chains_cached: Count = Field(
        default=100_000, description="Chain heads kept in memory, about 300 bytes each."
    )
    max_forks_per_chain: Annotated[int, Field(ge=0, le=1_024)] = Field(
        default=16,
        description="Refused forks kept as evidence per chain; further ones are counted only.",
    )
    max_proof_cache_bytes: Annotated[int, Field(ge=MIB)] = Field(
        default=64 * MIB,
        description="Bytes of tree hashes kept in memory for proofs; a tile takes 16 KiB.",
    )

    # Receipts that arrive before those they follow: held in memory, unanswered, until these come.
    park_wait_ms: Annotated[int, Field(ge=0, le=60_000)] = Field(
        default=500,
        description="Milliseconds a receipt that is ahead of its chain is held before it is answered GAP; "
        "its batch, and what its stream sends behind, is answered later by as much. 0 = GAP at once.",
    )
    park_max_receipts: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=1_024,
        description="Receipts of one chain that are held, and how many a number may be ahead.",
    )
    park_max_bytes: Annotated[int, Field(ge=64 * KIB)] = Field(
        default=16 * MIB,
        description="Bytes of all that is held, about 2 KiB for each receipt beside its own.",
    )

    # Anchors: timestamps by others over the log's checkpoints. Without a [[tsa]] there are none.
    tsa: tuple[TsaSettings, ...] = Field(
        default=(),
        description="Timestamp authorities (RFC 3161). Take two or more of different operators and "
        "roots: one alone can lie about time, or end.",
    )
    anchor_interval_seconds: Annotated[int, Field(ge=10, le=86_400)] = Field(
        default=600,
        description="Age of the oldest receipt without a timestamp at which the newest checkpoint is "
        "anchored. Two TSAs then get 288 requests a day.",
    )
    anchor_max_leaves: Count = Field(
        default=10_000,
        description="Leaves without a timestamp that anchor before the interval is over.",
    )
    anchor_min_spacing_seconds: Annotated[int, Field(ge=1, le=3_600)] = Field(
        default=20,
        description="Seconds between two requests to one TSA, whatever for, also across a restart; some "
        "ask for 15.",
    )
    anchor_heartbeat_seconds: Annotated[int, Field(ge=60, le=30 * 86_400)] = Field(
        default=86_400,
        description="Seconds after which a log at rest is anchored again. That also renews: older "
        "timestamps get under a newer one.",
    )
    anchor_quorum: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1,
        description="Different authorities whose timestamps make a checkpoint count as anchored.",
    )
    max_unanchored_seconds: Annotated[int, Field(ge=60, le=30 * 86_400)] = Field(
        default=14_400,
        description="Age of the oldest receipt without a timestamp beyond which anchors are overdue. From "
        "then on a broken TSA is tried every minute.",
    )
    unanchored_policy: Literal["warn", "refuse"] = Field(
        default="warn",
        description="While anchors are overdue: warn (metrics, alerts, /readyz says so) or refuse (new "
        "receipts are refused as well, and /readyz says 503; reads go on).",
    )
    evidence_delay_hours: Annotated[int, Field(ge=0, le=48)] = Field(
        default=24,
        description="Hours after a timestamp at which its revocation lists are fetched: a list older "
        "than the timestamp says little about it. It is looked every five minutes whether any are due; "
        "what cannot be had is tried again every hour.",
    )
    renew_before_days: Annotated[int, Field(ge=1, le=730)] = Field(
        default=180,
        description="Days before a timestamp's certificates end by which a newer one must cover it.",
    )
    max_quarantined: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1_000,
        description="Refused answers of TSAs kept as evidence, at most 64 KiB each; further ones are "
        "counted only.",
    )

    # Running.
    verify_threads: Annotated[int, Field(ge=0, le=256)] = Field(
        default=0, description="Threads that verify signatures; 0 = one per core."
    )
    verify_processes: Annotated[int, Field(ge=-1, le=256)] = Field(
        default=-1,
        description="Processes that verify for those threads, about 40 MiB each; -1 = one per thread, 0 = "
        "none. Threads alone queue for the interpreter between any two signatures.",
    )
    read_threads: Annotated[int, Field(ge=1, le=64)] = Field(
        default=2,
        description="Threads that read proofs, so that they never wait for the event loop.",
    )
    switch_interval_us: Annotated[int, Field(ge=50, le=100_000)] = Field(
        default=500,
        description="Microseconds a thread may keep the interpreter when another waits; Python's own "
        "default of 5,000 makes verifying threads queue behind each other.",
    )
    seal_wait_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        default=30.0,
        description="Seconds a SEALED ack waits for its seal; beyond it the call fails, since seals do.",
    )
    drain_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        default=10.0,
        description="Seconds that streams have to finish after SIGTERM; what is durable is sealed anyway.",
    )
    keepalive_seconds: Annotated[int, Field(ge=5, le=3_600)] = Field(
        default=30, description="Seconds between gRPC keepalive pings; clients may ping as often."
    )
    reflection: bool = Field(
        default=True, description="Serve gRPC reflection, for grpcurl and the like."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["json", "console"] = Field(
        default="json", description="json for machines, console for people."
    )

    @field_validator("listen", "http_listen")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return _address(value)

    @field_validator("origin")
    @classmethod
    def _is_origin(cls, value: str) -> str:
        try:
            NoteSigner.from_seed(value, bytes(32))
        except LedgerError as error:
            raise ValueError(error.message) from None
        return value

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        if self.max_receipt_bytes + KIB > self.max_message_bytes:
            raise ValueError("max_message_bytes must exceed max_receipt_bytes by at least 1024")
        if self.max_streams + self.max_watchers >= self.max_calls:
            raise ValueError("max_calls must exceed max_streams and max_watchers together")
        self._authorities_fit()
        if self.unanchored_policy == "refuse" and not self.tsa:
            raise ValueError("unanchored_policy refuse needs a [[tsa]]")
        if self.max_unanchored_seconds <= self.anchor_interval_seconds:
            raise ValueError("max_unanchored_seconds must exceed anchor_interval_seconds")
        if self.max_unanchored_seconds <= self.anchor_min_spacing_seconds:
            raise ValueError("max_unanchored_seconds must exceed anchor_min_spacing_seconds")
        if self.renew_before_days * 86_400 <= self.anchor_heartbeat_seconds:
            raise ValueError("renew_before_days must exceed anchor_heartbeat_seconds, which renews")
        return self

    def _authorities_fit(self) -> None:
        names = [item.name for item in self.tsa]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two [[tsa]] have the same name {twice}")
        known: dict[object, TsaSettings] = {}
        for item in self.tsa:
            other = known.setdefault(item.place, item)
            if other.authority != item.authority:
                raise ValueError(
                    f"the [[tsa]] {other.name} and {item.name} have the same url, so the same operator "
                    "answers: give both the same authority, or a quorum would count it twice"
                )
        authorities = len({item.authority for item in self.tsa})
        if self.anchor_quorum > max(authorities, 1):
            there = (
                f"the [[tsa]] name {authorities} authorities" if self.tsa else "there is no [[tsa]]"
            )
            raise ValueError(f"anchor_quorum is {self.anchor_quorum}, but {there}")

    @property
    def guard_file(self) -> Path:
        """Where the guard is."""
        return self.guard_path or self.data_dir / "guard"

    @property
    def log_key_file(self) -> Path:
        """Where the log's key is."""
        return self.log_key_path or self.data_dir / "log.key"

    @property
    def database(self) -> Path:
        """Where the database is, within the data folder."""
        return self.data_dir / "db"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then what `load_settings` read from the file."""
        del settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings
