"""The built-in receipt formats, as data. The only place of `core` that reads package data."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["SOURCES", "read_sources"]

# The order is part of the rules: where two formats match a receipt, the first is tried first.
SOURCES = (
    "ms-lesson18.toml",
    "ms-lesson18-prehash.toml",
    # The envelopes {payload, signature}: those with a mark of their own before the draft itself.
    "scopeblind-swarms.toml",
    "protect-mcp.toml",
    "protect-mcp-adk.toml",
    "acta-sdk.toml",
    "draft-farley-04.toml",
    "draft-farley-02.toml",
    # The flat shapes around it.
    "draft-farley-flat.toml",
    "draft-farley-flat-alg.toml",
    "draft-farley-v1.toml",
    "draft-farley-v2.toml",
    "acta-v1.toml",
    "agt-mcp.toml",
    "sm-arp.toml",
    # Formats that have nothing in common with others.
    "agent-receipts.toml",
    "answerproof.toml",
    "nobulex.toml",
    "nobulex-es256.toml",
    "pipelock-v1.toml",
    "pipelock-v1-line.toml",
    "pipelock-v2.toml",
    "pipelock-v2-line.toml",
    "pipelock-v2-named.toml",
    "aerf.toml",
    "signet-v1.toml",
    "signet-v2.toml",
    "signet-v3.toml",
    "chain-receipt-core.toml",
    "actledger.toml",
    "tap-bilateral.toml",
)


def read_sources() -> tuple[tuple[str, str], ...]:
    """(file name, text) of each built-in format, in the order of `SOURCES`."""
    here = files(__name__)
    return tuple((name, (here / name).read_text(encoding="utf-8")) for name in SOURCES)
