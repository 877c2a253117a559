"""A connection as a sender sees it: one chain to ask about, one kind of stream to open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.wire import Ack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.chain import Head
    from receiptledger.transport import Channel
    from receiptledger.wire import Stream

__all__ = ["ChainLink"]


class ChainLink:
    """What a sender asks of the connection; see :class:`receiptledger.wire.IngestLink`.

    Args:
        channel: the connection.
        agent: whose chain `head` is about.
        stream: which of the agent's.
        profile: receipt format of every batch; "" = detected.
        ack: when batches are answered.
        key_hints: public keys of 32 bytes, at most 16.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        agent: str = "",
        stream: str = "",
        profile: str = "",
        ack: Ack = Ack.DURABLE,
        key_hints: Sequence[bytes] = (),
    ) -> None:
        self._channel = channel
        self._chain = (agent, stream)
        self._profile, self._ack, self._key_hints = profile, ack, key_hints

    async def head(self) -> Head | None:
        """Newest position of the chain."""
        return await self._channel.head(*self._chain)

    def open(self) -> Stream:
        """Open a stream."""
        return self._channel.append(profile=self._profile, ack=self._ack, key_hints=self._key_hints)
