"""What tests need around a development TSA: requests by others, settings, trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

from ledgerd.tsa.settings import TsaSettings

if TYPE_CHECKING:
    from ledgerd.devtsa.server import DevTsa

__all__ = ["MESSAGE", "request", "settings_of"]

MESSAGE = (
    b"example.com/log\n42\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\xe2\x80\x94 a line\n"
)


def request(
    message: bytes = MESSAGE,
    *,
    digest: str = "sha256",
    nonce: bool = True,
    certificates: bool = True,
) -> tuple[bytes, int | None]:
    """A TimeStampReq made by rfc3161-client, and its nonce."""
    made = (
        TimestampRequestBuilder()
        .data(message)
        .hash_algorithm({"sha256": HashAlgorithm.SHA256, "sha512": HashAlgorithm.SHA512}[digest])
        .nonce(nonce=nonce)
        .cert_request(cert_request=certificates)
        .build()
    )
    return made.as_bytes(), made.nonce


def settings_of(tsa: DevTsa, **changes: Any) -> TsaSettings:
    """Settings of a ledger that uses it."""
    return TsaSettings.model_validate(tsa.settings | changes)
