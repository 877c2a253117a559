"""Record what an agent did, prove it, verify it offline.

`receiptledger.core` holds the rules (pure functions); the client, the command line and the daemon are
shells around them.

The names below are loaded at their first use: importing this package is cheap, and verifying never
loads gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from receiptledger.auditor import AsyncAuditor
    from receiptledger.backoff import Retry
    from receiptledger.builder import BuiltReceipt, ReceiptBuilder
    from receiptledger.client import AsyncAgent, submit_receipts
    from receiptledger.core.bundle import Bundle, parse_bundle
    from receiptledger.core.errors import (
        EvidenceError,
        LedgerError,
        Reason,
        ReceiptError,
        ServiceError,
    )
    from receiptledger.core.note import VerifierKey
    from receiptledger.core.verdict import Verdict
    from receiptledger.core.verify import Trust, verify_bundle
    from receiptledger.history import SplitViewError
    from receiptledger.outbox import ForkError, OutboxFullError, RefusedError
    from receiptledger.sender import SendOptions
    from receiptledger.signer import KeyFileError, SeedSigner, Signer, create_key_file, load_signer
    from receiptledger.sync import Agent, Auditor
    from receiptledger.trust import load_trust
    from receiptledger.wire import Ack

__version__ = "0.1.0"

_HOMES = {
    "auditor": ("AsyncAuditor",),
    "backoff": ("Retry",),
    "builder": ("BuiltReceipt", "ReceiptBuilder"),
    "client": ("AsyncAgent", "submit_receipts"),
    "core.bundle": ("Bundle", "parse_bundle"),
    "core.errors": ("EvidenceError", "LedgerError", "Reason", "ReceiptError", "ServiceError"),
    "core.note": ("VerifierKey",),
    "core.verdict": ("Verdict",),
    "core.verify": ("Trust", "verify_bundle"),
    "history": ("SplitViewError",),
    "outbox": ("ForkError", "OutboxFullError", "RefusedError"),
    "sender": ("SendOptions",),
    "signer": ("KeyFileError", "SeedSigner", "Signer", "create_key_file", "load_signer"),
    "sync": ("Agent", "Auditor"),
    "trust": ("load_trust",),
    "wire": ("Ack",),
}
_HOME = {name: f"receiptledger.{module}" for module, names in _HOMES.items() for name in names}

__all__ = [
    "Ack",
    "Agent",
    "AsyncAgent",
    "AsyncAuditor",
    "Auditor",
    "BuiltReceipt",
    "Bundle",
    "EvidenceError",
    "ForkError",
    "KeyFileError",
    "LedgerError",
    "OutboxFullError",
    "Reason",
    "ReceiptBuilder",
    "ReceiptError",
    "RefusedError",
    "Retry",
    "SeedSigner",
    "SendOptions",
    "ServiceError",
    "Signer",
    "SplitViewError",
    "Trust",
    "Verdict",
    "VerifierKey",
    "__version__",
    "create_key_file",
    "load_signer",
    "load_trust",
    "parse_bundle",
    "submit_receipts",
    "verify_bundle",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
