"""HTTP to a timestamp authority: every fault gets its cause, in bounded time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import gc
import gzip
import socket
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.devtsa.faults import Mode
from ledgerd.devtsa.server import DevTsa
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import MAX_RESPONSE_BYTES, TsaHttp
from ledgerd.tsa.settings import TsaSettings
from receiptledger.core.errors import Reason
from receiptledger.core.timestamp_cause import Cause
from tests.helpers.cases import named
from tests.helpers.polling import PATIENCE
from tests.helpers.raw_http import RawServer, answer
from tests.helpers.tsa_kit import request, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator


QUERY, _ = request()
SHORT = 0.5  # seconds: for faults that last longer
MIB = 1024 * 1024
FILES = Path("/dev/fd")
NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTsa]:
    with DevTsa(tmp_path_factory.mktemp("tsa") / "dev") as tsa:
        yield tsa


@pytest.fixture
def tsa(shared: DevTsa) -> DevTsa:
    shared.mode = Mode.OK
    shared.replayed = None
    shared.seen.clear()
    return shared


def settings(url: str, **changes: Any) -> TsaSettings:
    """Settings whose certificates are never read."""
    return TsaSettings.model_validate({"name": "t", "url": url, "roots": ["unread.pem"]} | changes)


def post(config: TsaSettings, *, deadline: float = PATIENCE, times: int = 1) -> bytes:
    async def run() -> bytes:
        async with TsaHttp(config, wall=lambda: NOW) as http:
            body = b""
            for _ in range(times):
                body = await http.post(QUERY, deadline_seconds=deadline)
            return body

    return asyncio.run(run())


def refusal(config: TsaSettings, *, deadline: float = PATIENCE) -> TsaError:
    with pytest.raises(TsaError) as caught:
        post(config, deadline=deadline)
    return caught.value


def against(reply: bytes, *, endless: bytes = b"", **changes: Any) -> bytes:
    """Post to a server that sends these bytes."""

    async def run() -> bytes:
        async with (
            RawServer(reply, endless=endless) as server,
            TsaHttp(settings(server.url, **changes), wall=lambda: NOW) as http,
        ):
            return await http.post(QUERY, deadline_seconds=PATIENCE)

    return asyncio.run(run())


def refused(reply: bytes, *, endless: bytes = b"", **changes: Any) -> TsaError:
    with pytest.raises(TsaError) as caught:
        against(reply, endless=endless, **changes)
    return caught.value


# The fault modes of the development TSA.

# What the transport says; None: it lets the bytes through, and the verifiers judge them.
FAULTS: dict[Mode, tuple[Cause | None, float | None]] = {
    Mode.OK: (None, None),
    Mode.NOT_FOUND: (Cause.HTTP_4XX, None),
    Mode.TOO_MANY: (Cause.RATE_LIMITED, 7),
    Mode.ERROR: (Cause.HTTP_5XX, None),
    Mode.MAINTENANCE: (Cause.HTTP_5XX, 120),
    Mode.REDIRECT: (Cause.REDIRECT, None),
    Mode.LOOP: (Cause.REDIRECT, None),
    Mode.HTML: (Cause.MEDIA_TYPE, None),
    Mode.WRONG_TYPE: (Cause.MEDIA_TYPE, None),
    Mode.EMPTY: (Cause.EMPTY_BODY, None),
    Mode.TRUNCATED: (None, None),
    Mode.GARBAGE: (None, None),
    Mode.HUGE: (Cause.TOO_LARGE, None),
    Mode.HUGE_CHUNKED: (Cause.TOO_LARGE, None),
    Mode.SLOW_HEADERS: (Cause.TIMEOUT, None),
    Mode.SLOW_BODY: (Cause.TIMEOUT, None),
    Mode.CLOSE: (Cause.TRANSPORT, None),
    Mode.REPLAY: (None, None),
}
SLOW = {Mode.SLOW_HEADERS, Mode.SLOW_BODY}


def test_every_fault_is_tried() -> None:
    assert set(FAULTS) == set(Mode)
    assert len(Mode) == 18


@pytest.mark.parametrize("mode", Mode)
def test_a_fault_has_its_cause_in_bounded_time_and_memory(tsa: DevTsa, mode: Mode) -> None:
    tsa.mode = mode
    cause, retry_after = FAULTS[mode]
    config = settings_of(tsa)
    deadline = SHORT if mode in SLOW else PATIENCE
    tracemalloc.start()
    started = time.monotonic()
    try:
        if cause is None:
            assert post(config, deadline=deadline)
        else:
            error = refusal(config, deadline=deadline)
            assert (error.cause, error.retry_after_seconds) == (cause, retry_after)
            assert error.reason is Reason.BAD_TIMESTAMP
            assert error.detail in str(error)
            assert str(error).endswith(f"({cause})")
        assert time.monotonic() - started < tsa.hang_seconds / 2
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert len(tsa.seen) == 1, "one request, and nothing was followed"


def test_nobody_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = refusal(settings(f"http://127.0.0.1:{port}/"))
    assert error.cause is Cause.TRANSPORT
    assert error.detail == f"cannot connect to 127.0.0.1:{port}: Connection refused"


def test_a_good_response_comes_as_it_was_sent(tsa: DevTsa) -> None:
    tsa.mode = Mode.REPLAY
    first = post(settings_of(tsa))
    assert tsa.replayed == first
    (seen,) = tsa.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/", QUERY)
    assert seen.headers["content-type"] == "application/timestamp-query"
    assert seen.headers["accept"] == "application/timestamp-reply"
    assert seen.headers["accept-encoding"] == "identity"
    assert "authorization" not in seen.headers


def test_a_session_is_used_again_and_again(tsa: DevTsa) -> None:
    post(settings_of(tsa), times=3)
    assert len(tsa.seen) == 3


def test_closing_what_was_never_used() -> None:
    asyncio.run(TsaHttp(settings("http://127.0.0.1:1/")).close())


# Heads of answers.


@pytest.mark.parametrize(
    "media_type",
    ["application/timestamp-reply", "Application/Timestamp-Reply ; charset=binary"],
)
def test_media_types_are_compared_without_case_and_parameters(media_type: str) -> None:
    assert against(answer(b"x", media_type=media_type)) == b"x"


@pytest.mark.parametrize("media_type", [None, "", "application/timestamp-reply-2", "text/html"])
def test_another_media_type(media_type: str | None) -> None:
    assert refused(answer(b"x", media_type=media_type)).cause is Cause.MEDIA_TYPE


STATUSES = {
    "201 Created": Cause.HTTP_4XX,
    "202 Accepted": Cause.HTTP_4XX,
    "204 No Content": Cause.HTTP_4XX,
    "301 Moved": Cause.REDIRECT,
    "304 Not Modified": Cause.REDIRECT,
    "308 Permanent": Cause.REDIRECT,
    "400 Bad": Cause.HTTP_4XX,
    "401 Who": Cause.HTTP_4XX,
    "429 Slow": Cause.RATE_LIMITED,
    "500 Oops": Cause.HTTP_5XX,
    "599 Odd": Cause.HTTP_5XX,
    "999 Odd": Cause.HTTP_5XX,
}


@pytest.mark.parametrize(("status", "cause"), STATUSES.items(), ids=str)
def test_a_status_that_is_no_success(status: str, cause: Cause) -> None:
    body = b"" if status[:3] in ("204", "304") else b"x"
    assert refused(answer(body, status=status)).cause is cause


def test_a_redirect_names_where_it_led() -> None:
    error = refused(answer(b"", "Location: http://169.254.169.254/\t", status="302 Found"))
    assert "'http://169.254.169.254/'" in error.detail
    error = refused(answer(b"", "Location: http://u:hunter2@h/", status="302 Found"))
    assert "'http://***@h/'" in error.detail


def test_201_when_it_is_wanted() -> None:
    reply = answer(b"x", status="201 Created")
    assert "accept_201" in refused(reply).detail
    assert against(reply, accept_201=True) == b"x"


RETRY_AFTER = {
    "0": 0.0,
    "7": 7.0,
    "99999999999": 3600.0,
    email.utils.formatdate(NOW + 90, usegmt=True): 90.0,
    email.utils.formatdate(NOW - 90, usegmt=True): 0.0,
    email.utils.formatdate(NOW + 9e6, usegmt=True): 3600.0,
    "-7": None,
    "7.5": None,
    "\u0667": None,
    "soon": None,
    "Fri, 99 Foo 2030 00:00:00 GMT": None,
    "": None,
}


@pytest.mark.parametrize(("value", "seconds"), RETRY_AFTER.items())
def test_retry_after(value: str, seconds: float | None) -> None:
    header = f"Retry-After: {value}".encode().decode("latin-1")
    for status in ("429 Slow", "503 Later", "404 Gone"):
        assert refused(answer(b"", header, status=status)).retry_after_seconds == seconds


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Encoding: gzip",),
        ("Content-Encoding: identity, br",),
        ("Content-Encoding: identity", "Content-Encoding: deflate"),
    ],
)
def test_compression_was_not_asked_for(headers: tuple[str, ...]) -> None:
    error = refused(answer(gzip.compress(b"0" * MIB), *headers))
    assert error.cause is Cause.CONTENT_ENCODING


def test_identity_is_no_compression() -> None:
    assert against(answer(b"x", "Content-Encoding: Identity")) == b"x"


def test_the_largest_response() -> None:
    assert len(against(answer(b"x" * MAX_RESPONSE_BYTES))) == MAX_RESPONSE_BYTES
    assert refused(answer(b"x" * (MAX_RESPONSE_BYTES + 1))).cause is Cause.TOO_LARGE


def test_the_largest_response_in_chunks() -> None:
    head = answer().replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    assert len(against(head + 2 * chunk + b"0\r\n\r\n")) == MAX_RESPONSE_BYTES
    over = head + 2 * chunk + b"1\r\nx\r\n" + b"0\r\n\r\n"
    assert refused(over).cause is Cause.TOO_LARGE


HEAD = b"HTTP/1.1 200 OK\r\n"
NOT_HTTP = named(
    {
        "nothing": b"",
        "noise": b"\x00\xff" * 100,
        "no_status": b"HELLO\r\n\r\n",
        "half_a_head": HEAD + b"Content-Type: application/time",
        "negative_length": HEAD + b"Content-Length: -1\r\n\r\n",
        "length_of_words": HEAD + b"Content-Length: many\r\n\r\n",
        "two_lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "long_line": HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
        "bad_chunk": answer().replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        + b"zz\r\n",
    }
)


@pytest.mark.parametrize("reply", NOT_HTTP)
def test_what_is_no_http(reply: bytes) -> None:
    assert refused(reply).cause is Cause.TRANSPORT


@pytest.mark.parametrize(
    ("start", "endless"),
    [(HEAD, b"X-A: " + b"x" * 1000 + b"\r\n"), (HEAD, b"x" * 1000)],
    ids=["headers", "header"],
)
def test_endless_heads_end(start: bytes, endless: bytes) -> None:
    tracemalloc.start()
    try:
        assert refused(start, endless=endless).cause is Cause.TRANSPORT
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_endless_interim_answers_meet_the_deadline() -> None:
    async def run() -> None:
        async with (
            RawServer(b"", endless=b"HTTP/1.1 102 Processing\r\n\r\n") as server,
            TsaHttp(settings(server.url)) as http,
        ):
            await http.post(QUERY, deadline_seconds=SHORT)

    with pytest.raises(TsaError) as caught:
        asyncio.run(run())
    assert caught.value.cause in (Cause.TIMEOUT, Cause.TRANSPORT)


def test_cookies_are_not_kept() -> None:
    async def run() -> list[bytes]:
        async with (
            RawServer(answer(b"x", "Set-Cookie: who=you; Path=/")) as server,
            TsaHttp(settings(server.url)) as http,
        ):
            for _ in range(2):
                await http.post(QUERY, deadline_seconds=PATIENCE)
            return server.requests

    assert not any(b"cookie" in sent.lower() for sent in asyncio.run(run()))


def test_a_refused_body_is_not_drained() -> None:
    """What is too large is hung up on, not read to its end."""

    async def run() -> int:
        async with (
            RawServer(
                answer().replace(b"Content-Length: 0", b"Content-Length: 999999999"),
                endless=b"x" * 65_536,
            ) as server,
            TsaHttp(settings(server.url)) as http,
        ):
            with pytest.raises(TsaError):
                await http.post(QUERY, deadline_seconds=PATIENCE)
            return server.sent

    assert asyncio.run(run()) < 16 * MIB


# Proxies.


def test_proxies_of_the_environment_are_not_used(
    tsa: DevTsa, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    monkeypatch.delenv("no_proxy", raising=False)
    assert post(settings_of(tsa))


def test_a_configured_proxy_is_used() -> None:
    async def run() -> bytes:
        async with (
            RawServer(answer(b"by proxy")) as server,
            TsaHttp(settings("http://tsa.invalid/a", proxy=server.url)) as http,
        ):
            assert await http.post(QUERY, deadline_seconds=PATIENCE) == b"by proxy"
            return server.requests[0]

    assert asyncio.run(run()).startswith(b"POST http://tsa.invalid/a HTTP/1.1\r\n")


def test_a_proxy_that_is_not_there(tsa: DevTsa) -> None:
    error = refusal(settings_of(tsa, proxy="http://user:secret@127.0.0.1:1/"))
    assert error.cause is Cause.TRANSPORT
    assert "secret" not in str(error)
    assert not tsa.seen


# Fetching evidence.


def test_get_and_ocsp_carry_no_credentials(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("abc\n")

    async def run() -> list[bytes]:
        ocsp = answer(b"o", media_type="application/ocsp-response")
        async with (
            RawServer(lambda sent: ocsp if b"ocsp" in sent else answer(b"c")) as server,
            TsaHttp(settings(server.url, bearer_token_file=secret)) as http,
        ):
            crl = await http.get(server.url + "a.crl", deadline_seconds=PATIENCE)
            answered = await http.post_ocsp(server.url + "ocsp", b"q", deadline_seconds=PATIENCE)
            assert (crl, answered) == (b"c", b"o")
            return server.requests

    got, asked = asyncio.run(run())
    assert got.startswith(b"GET /a.crl HTTP/1.1\r\n")
    assert asked.startswith(b"POST /ocsp HTTP/1.1\r\n")
    assert b"application/ocsp-request" in asked
    assert asked.endswith(b"q")
    assert b"uthorization" not in got + asked


def test_evidence_has_its_own_limit() -> None:
    async def run(limit: int) -> bytes:
        async with (
            RawServer(answer(b"x" * 100, media_type="text/plain")) as server,
            TsaHttp(settings(server.url)) as http,
        ):
            return await http.get(server.url, deadline_seconds=PATIENCE, max_bytes=limit)

    assert len(asyncio.run(run(100))) == 100
    with pytest.raises(TsaError, match="too_large"):
        asyncio.run(run(99))


@pytest.mark.parametrize(
    "url", ["ldap://h/a", "file:///etc/passwd", "http:///a", "a", "http://[::1", "http://a b/"]
)
def test_urls_that_are_not_followed(url: str) -> None:
    async def run() -> None:
        async with TsaHttp(settings("http://127.0.0.1:1/")) as http:
            await http.get(url, deadline_seconds=PATIENCE)

    with pytest.raises(TsaError) as caught:
        asyncio.run(run())
    assert caught.value.cause is Cause.TRANSPORT


def open_files() -> int:
    return len(list(FILES.iterdir()))


def test_many_rounds_with_a_misbehaving_tsa_leave_nothing_behind(tsa: DevTsa) -> None:
    """Neither open files nor memory: one session, every quick fault again and again."""
    modes = [mode for mode in Mode if mode not in SLOW and mode is not Mode.OK]

    async def run() -> tuple[int, int]:
        async with TsaHttp(settings_of(tsa)) as http:

            async def rounds(count: int) -> tuple[int, int]:
                for _ in range(count):
                    for mode in modes:
                        tsa.mode = mode
                        with contextlib.suppress(TsaError):
                            await http.post(QUERY, deadline_seconds=PATIENCE)
                gc.collect()
                return open_files(), tracemalloc.get_traced_memory()[0]

            await rounds(4)  # what is made once, and caches that fill, are no growth
            files, memory = await rounds(4)
            files_after, memory_after = await rounds(4)
            return files_after - files, memory_after - memory

    tracemalloc.start()
    try:
        files, memory = asyncio.run(run())
    finally:
        tracemalloc.stop()
    assert files < 8, "the server's side of the last requests may still be open"
    assert memory < MIB / 4
