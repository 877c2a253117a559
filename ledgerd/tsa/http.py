"""HTTP to one timestamp authority (RFC 3161 section 3.4) and to the servers of its revocation lists.

The answer comes from a stranger, mostly over plain http, so everything is bounded before it is
looked at:

* one deadline for everything from connecting to the last byte, because a timeout per read does not
  end a server that sends a byte now and then;
* a limit of bytes that holds while they arrive, because a chunked body does not say its length;
* no redirects: they turn a POST into a GET, and lead where the operator did not point;
* no compression, no cookies, no proxy but the configured one;
* the media type is compared, so that a portal's page is named as what it is.

What the bytes say is not judged here: integrity comes from the token, and from verifying it.
"""

from __future__ import annotations

import asyncio
import email.utils
import re
import socket
import time
from typing import TYPE_CHECKING, Final, Self

import aiohttp
from yarl import URL

from ledgerd.tsa.credentials import Credentials
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.words import shown, shown_url, transport_words
from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

    import aiohappyeyeballs

    from ledgerd.tsa.settings import TsaSettings

__all__ = ["MAX_EVIDENCE_BYTES", "MAX_RESPONSE_BYTES", "TsaHttp"]

MAX_RESPONSE_BYTES: Final = 64 * 1024  # real responses have 0.5 to 8 KiB
MAX_EVIDENCE_BYTES: Final = 256 * 1024  # a CRL or an OCSP response
MAX_RETRY_AFTER_SECONDS: Final = 3_600.0
_READ_BYTES: Final = 16 * 1024
_RECEIVE_BYTES: Final = 8 * 1024  # still a CRL of 256 KiB within seconds on a long way
_HEADER_BYTES: Final = 4 * 1024
_QUERY, _REPLY = "application/timestamp-query", "application/timestamp-reply"
_OCSP_QUERY, _OCSP_REPLY = "application/ocsp-request", "application/ocsp-response"


class TsaHttp:
    """One session with one TSA. Connections are not kept: minutes lie between two requests.

    Owned by the event loop that first uses it; close it there.

    Args:
        settings: of the TSA.
        wall: seconds since the epoch, to read a date in Retry-After.
    """

    def __init__(self, settings: TsaSettings, *, wall: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._wall = wall
        self._credentials = Credentials(settings)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up what is under way, and the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, request: bytes, *, deadline_seconds: float) -> bytes:
        """Send a TimeStampReq (DER) and return what came back, unverified.

        Raises:
            TsaError: timeout, transport, credentials, http_4xx, http_5xx, rate_limited, redirect, media_type,
                content_encoding, too_large or empty_body.
        """
        return await self._exchange(
            "POST",
            self._settings.url,
            body=request,
            types=(_QUERY, _REPLY),
            limit=MAX_RESPONSE_BYTES,
            deadline_seconds=deadline_seconds,
            as_client=True,
        )

    async def get(
        self, url: str, *, deadline_seconds: float, max_bytes: int = MAX_EVIDENCE_BYTES
    ) -> bytes:
        """Fetch a CRL from where a certificate says. No credentials go there.

        The media type is not compared: CRLs are served under many.

        Raises:
            TsaError: as :meth:`post`; and transport for a URL that is not http or https.
        """
        return await self._exchange(
            "GET",
            url,
            body=None,
            types=(None, None),
            limit=max_bytes,
            deadline_seconds=deadline_seconds,
            as_client=False,
        )

    async def post_ocsp(
        self,
        url: str,
        request: bytes,
        *,
        deadline_seconds: float,
        max_bytes: int = MAX_EVIDENCE_BYTES,
    ) -> bytes:
        """Ask an OCSP responder (RFC 6960 appendix A). No credentials go there.

        Raises:
            TsaError: as :meth:`get`, and media_type.
        """
        return await self._exchange(
            "POST",
            url,
            body=request,
            types=(_OCSP_QUERY, _OCSP_REPLY),
            limit=max_bytes,
            deadline_seconds=deadline_seconds,
            as_client=False,
        )

    async def _exchange(
        self,
        method: str,
        address: str,
        *,
        body: bytes | None,
        types: tuple[str | None, str | None],
        limit: int,
        deadline_seconds: float,
        as_client: bool,
    ) -> bytes:
        """One request and the body of its answer; `types` are the media types sent and wanted."""
        try:
            async with asyncio.timeout(deadline_seconds):
                url = URL(address)
                if url.scheme not in ("http", "https") or not url.host:
                    raise TsaError(
                        Cause.TRANSPORT, f"not an http or https URL: {shown_url(address)}"
                    )
                sent, wanted = types
                headers = {"Accept": wanted or "*/*", "Accept-Encoding": "identity"}
                headers |= {} if sent is None else {"Content-Type": sent}
                if as_client:
                    headers |= await asyncio.to_thread(self._credentials.authorization)
                proxy = self._settings.proxy
                tls: ssl.SSLContext | bool = True
                if "https" in (url.scheme, URL(proxy or "").scheme):
                    tls = await asyncio.to_thread(self._credentials.tls, as_client=as_client)
                async with self._opened().request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=proxy,
                    ssl=tls,
                ) as response:
                    try:
                        self._check(response, wanted, limit)
                        return await _read(response, limit)
                    finally:
                        response.close()  # never drain what was refused
        except TimeoutError:
            raise TsaError(
                Cause.TIMEOUT, f"no complete answer within {deadline_seconds:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TsaError(Cause.TRANSPORT, transport_words(error)) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    force_close=True, limit=8, ttl_dns_cache=60, socket_factory=_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The one deadline is ours; the library's own would only blur which it was.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                headers={"User-Agent": "ledgerd"},
                auto_decompress=False,
                trust_env=False,
                read_bufsize=_READ_BYTES,
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )
        return self._session

    def _check(self, response: aiohttp.ClientResponse, wanted: str | None, limit: int) -> None:
        """What the head of an answer already shows to be unusable."""
        status = response.status
        retry = _retry_after(response.headers.get("Retry-After"), self._wall)
        if 300 <= status < 400:
            target = shown_url(response.headers.get("Location", "nowhere"))
            raise TsaError(Cause.REDIRECT, f"status {status} to {target}: set the final URL")
        if status == 429:
            raise TsaError(Cause.RATE_LIMITED, "status 429", retry)
        if status >= 500:
            raise TsaError(Cause.HTTP_5XX, f"status {status}", retry)
        if status == 201 and self._settings.accept_201:
            status = 200
        if status != 200:  # another success than 200 is no answer either
            hint = ": accept_201 takes it" if status == 201 else ""
            raise TsaError(Cause.HTTP_4XX, f"status {status}{hint}", retry)
        encodings = response.headers.getall("Content-Encoding", [])
        if any(encoding.strip().lower() not in ("", "identity") for encoding in encodings):
            raise TsaError(Cause.CONTENT_ENCODING, f"not asked for: {shown(', '.join(encodings))}")
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if wanted is not None and kind != wanted:
            raise TsaError(Cause.MEDIA_TYPE, f"expected {wanted}, got {shown(kind)}")
        length = response.content_length
        if length is not None and length > limit:
            raise TsaError(Cause.TOO_LARGE, f"{length} bytes announced, at most {limit} are read")


def _socket(address: aiohappyeyeballs.AddrInfoType) -> socket.socket:
    """A socket that takes little at a time, so that one turn of the event loop is short.

    Else a peer that floods us with heads of interim answers, which cost far more to read than to
    send, holds the loop, and with it every acknowledgement, for tenths of a second.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    return made


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > limit:
            raise TsaError(Cause.TOO_LARGE, f"more than {limit} bytes")
    if not body:
        raise TsaError(Cause.EMPTY_BODY, "the answer is empty")
    return bytes(body)


def _retry_after(value: str | None, wall: Callable[[], float]) -> float | None:
    """Seconds from a Retry-After header (RFC 9110 section 10.2.3), at most an hour."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
        seconds = float(value)
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - wall()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
