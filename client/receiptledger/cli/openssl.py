"""How an auditor checks a bundle's timestamps without us: files for OpenSSL, and the lines to run.

Everything OpenSSL is given is from the bundle (the note, the response, the authority's certificates in
between) but the root, which is the auditor's own. Where OpenSSL cannot verify what we can
(`openssl_limits`), a comment says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.certificates import to_pem
from receiptledger.cli.openssl_limits import obstacle
from receiptledger.cli.output import CliError
from receiptledger.core.anchor_stamps import Outcome
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.remembered import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from receiptledger.core.anchor_stamps import Stamp
    from receiptledger.core.anchors import Anchoring
    from receiptledger.core.timestamp import Timestamp

__all__ = ["extract", "openssl_lines"]

_SHOWN = (Outcome.HOLDS, Outcome.RENEWED, Outcome.EXPIRED)


def openssl_lines(anchoring: Anchoring | None) -> list[str]:
    """One shell line for each verified stamp that covers the receipt, none twice.

    The files are named as inside the folder that :func:`extract` wrote, for that is where the lines
    run: OpenSSL takes a space or comma in the path of `-untrusted` for the end of a file's name.
    """
    if anchoring is None:
        return []
    lines = (
        _line(stamp, stamp.timestamp)
        for stamp in anchoring.stamps
        if stamp.timestamp is not None and anchoring.covers(stamp) and stamp.outcome in _SHOWN
    )
    return list(dict.fromkeys(lines))


def extract(anchoring: Anchoring | None, folder: Path) -> int:
    """Write the files of every verified stamp; existing ones of the same name are replaced.

    Returns:
        How many stamps; for none, the folder is not made.

    Raises:
        CliError: a file cannot be written.
    """
    files = [
        _files(stamp, stamp.timestamp)
        for stamp in (() if anchoring is None else anchoring.stamps)
        if stamp.timestamp is not None
    ]
    if not files:
        return 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for of_stamp in files:
            for name, data in of_stamp.items():
                replace_file(folder / name, data)
    except OSError as error:
        raise CliError(f"cannot write into {folder}: {error.strerror or error}") from None
    return len(files)


def _files(stamp: Stamp, timestamp: Timestamp) -> dict[str, bytes]:
    name = f"anchor-{stamp.index}"
    files = {
        f"checkpoint-{stamp.size}.note": stamp.note,
        f"{name}.tsq": stamp.request,
        f"{name}.tsr": stamp.response,
        f"{name}-root.pem": to_pem(timestamp.path[-1:]),
    }
    between = _between(stamp, timestamp)
    return files | ({f"{name}-chain.pem": to_pem(between)} if between else {})


def _between(stamp: Stamp, timestamp: Timestamp) -> tuple[bytes, ...]:
    """The path without its root, and without the signer where the response brings it."""
    signer, *above = timestamp.path[:-1]
    return (*(() if signer in stamp.response else (signer,)), *above)


def _line(stamp: Stamp, timestamp: Timestamp) -> str:
    name = f"anchor-{stamp.index}"
    why = obstacle(stamp.response, timestamp)
    if why is not None:
        return f"# {name}: not for `openssl ts`: {why}"
    words = ["openssl", "ts", "-verify", "-in", f"{name}.tsr"]
    words += ["-data", f"checkpoint-{stamp.size}.note", "-CAfile", f"{name}-root.pem"]
    if _between(stamp, timestamp):
        words += ["-untrusted", f"{name}-chain.pem"]
    # The chain is judged when the token was made: without this, OpenSSL judges it today.
    words += ["-attime", str(int(timestamp.gen_time.timestamp()))]
    root = load_certificate(timestamp.path[-1])
    if root.issuer != root.subject:  # an anchor that is no root: OpenSSL has to be told
        words.append("-partial_chain")
    return " ".join(words)
