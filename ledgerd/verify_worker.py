"""A verifying process: reads batches on stdin, writes on stdout which receipts it could verify.

`ledgerd.verify_pool` starts one per core. A verifier in the daemon's own process needs the interpreter
between any two signatures and queues for it behind the event loop and the writer; a process of its own
does not. It holds no state but keys it was told, decides nothing for good (admission decides again),
and ends when its stdin does, so it never outlives a daemon that was killed.

A frame is its length as u32be, then a `marshal`: both ends are the same program.
"""

from __future__ import annotations

import gc
import marshal
import signal
import sys
from typing import IO, TYPE_CHECKING, Any

from ledgerd.keyring import Keyring
from ledgerd.verification import Verified, verify_batch
from receiptledger.core.canonical import Limits
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import Receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["frame", "main", "pack", "read_frame", "serve", "unpack", "write_frame"]

GC_THRESHOLD = 100_000  # objects made and not dropped before the young are searched for cycles
Packed = tuple[Any, ...]


def read_frame(stream: IO[bytes]) -> Any:
    """The next frame's value.

    Raises:
        EOFError: the other end is gone.
    """
    head = stream.read(4)
    size = int.from_bytes(head, "big")
    data = stream.read(size) if len(head) == 4 else b""
    if len(head) < 4 or len(data) < size:
        raise EOFError("the other end is gone")
    return marshal.loads(data)  # noqa: S302 - from our own process


def frame(value: Any) -> bytes:
    """A value as it is sent."""
    data = marshal.dumps(value)
    return len(data).to_bytes(4, "big") + data


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Send one value. Raises OSError when the other end is gone."""
    stream.write(frame(value))
    stream.flush()


def pack(item: Verified) -> Packed:
    """What admission needs of a verified receipt; its bytes stay where they are."""
    r = item.receipt
    # fmt: off
    return (
        r.profile, r.profile_version, r.agent, r.stream, r.sequence, r.sequence_step, r.previous,
        r.link_hash, r.content_hash, r.receipt_hash, r.sequence_start, r.linked, item.key,
        item.leaf_hash,
    )
    # fmt: on


def unpack(raw: bytes, packed: Packed) -> Verified:
    """The reverse of :func:`pack`. Signature and signed bytes are not carried: they were checked."""
    # fmt: off
    (profile, version, agent, stream, number, step, previous,
     link, content, own, start, linked, key, leaf) = packed
    receipt = Receipt(
        raw, profile, version, agent, stream, number, step, previous, link, content, own,
        b"", b"", None, None, None, (), start, linked,
    )
    # fmt: on
    return Verified(receipt, key, leaf)


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer batches until the source ends.

    The first frame is (pinning, enrolled keys by agent, max_bytes, cache size, formats beside the
    built-in ones as (file name, TOML)); each further one (receipts, profile or None, key hints, newly
    learned (chain, key) pairs). An answer has, for each receipt, what `pack` gives, or None when it
    could not be verified here.
    """
    try:
        pinning, enrolled, max_bytes, cache_size, formats = read_frame(source)
    except EOFError:  # the daemon's start was refused
        return
    keyring = Keyring(
        pinning=pinning, enrolled=enrolled, pinned=lambda _: (), cache_size=cache_size
    )
    profiles, limits = Profiles.with_folder(formats), Limits(max_bytes=max_bytes)
    while True:
        try:
            raws, profile, hints, learned = read_frame(source)
        except EOFError:
            return
        for chain, key in learned:
            keyring.learn(chain, key)
        items: Sequence[object] = verify_batch(
            raws, profile=profile, hints=hints, profiles=profiles, keyring=keyring, limits=limits
        )
        write_frame(sink, [pack(i) if isinstance(i, Verified) else None for i in items])


def main() -> None:
    """Entry point of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the daemon drains first, then closes the pipe
    # As in the daemon: receipts never form cycles, so do not look for them every few hundred.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
