"""Timestamps and sigstore's timestamp authority: it stamps for us, and judges what we stamp.

The server is theirs, with its own ASN.1 and CMS; only the key stores of four clouds are left out of
the build (tsa/nokms). The other way, its verifier looks at tokens of the development TSA.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ledgerd.devtsa.responder import OpenSslTsa
from ledgerd.devtsa.server import DevTsa
from ledgerd.tsa import second_opinion
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.settings import TsaSettings
from receiptledger.core.timestamp import TimestampError, verify_response
from receiptledger.core.timestamp_request import TimestampRequest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.helpers.tsa_kit import MESSAGE, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FOLDER", "PROGRAM", "check"]

HERE = Path(__file__).resolve().parent
FOLDER, PROGRAM = HERE / "tsa", HERE / "bin" / "timestamps"
START_SECONDS, RUN_SECONDS = 60.0, 30.0
POLICY = "1.3.6.1.4.1.57264.2"


def check(tally: Callable[[str, str], None], folder: Path) -> None:
    """Run everything; `tally` takes what was checked, and what is wrong with it or nothing."""
    own = DevTsa(folder / "own", key="rsa3072")
    own.close()
    chain = folder / "chain.pem"
    parts = (own.certificate_file, own.intermediate_file, own.root_file)
    chain.write_bytes(b"".join(path.read_bytes() for path in parts))
    file_signer = ["timestamp-signer=file", f"file-signer-key-path={own.folder / 'tsa.key'}"]
    file_signer += [f"certificate-chain-path={chain}", "enforce-intermediate-eku=false"]
    signers = {
        "its own P-256 key": ["timestamp-signer=memory"],
        "an RSA key of ours": [*file_signer, "timestamp-signer-hash=sha512"],
    }
    for (name, arguments), whole in itertools.product(signers.items(), (False, True)):
        embedded = "its chain" if whole else "its certificate"
        with _server(*arguments, f"include-chain-in-response={whole}".lower()) as url:
            settings = _settings(url, folder)
            for digest, nonce, certificates in itertools.product(
                ("sha256", "sha512"), (True, False), (True, False)
            ):
                what = f"sigstore's TSA stamps with {name}, {embedded} in the token: {digest}"
                what += f", nonce {nonce}, certReq {certificates}"
                query, sent = request(digest=digest, nonce=nonce, certificates=certificates)
                tally(what, _problem(settings, query, sent))
    _statuses(tally, folder)
    _their_verdicts(tally, folder)


def _statuses(tally: Callable[[str, str], None], folder: Path) -> None:
    query, nonce = request()
    with _server("timestamp-signer=memory", "use-http-201=true") as url:
        settings = _settings(url, folder)
        refused = _problem(settings, query, nonce)
        tally("status 201 is refused as it stands", "" if "http_4xx" in refused else refused)
        lax = settings.model_copy(update={"accept_201": True})
        tally("status 201 is taken where the settings say so", _problem(lax, query, nonce))
        unknown = TimestampRequest(bytes(32), "sha256", 1, "1.2.3", cert_req=True).encode()
        refused = _problem(settings, unknown, 1)
        tally("a policy it does not know is refused", "" if "http_4xx" in refused else refused)


def _their_verdicts(tally: Callable[[str, str], None], folder: Path) -> None:
    """What sigstore's verifier says of tokens of the development TSA."""
    other = DevTsa(folder / "other")
    other.close()
    for key, ess in itertools.product(("p256", "rsa3072"), ("sha1", "sha256", "sha512")):
        tsa = DevTsa(folder / f"{key}-{ess}", key=key)  # type: ignore[arg-type]
        tsa.close()
        response = OpenSslTsa(tsa.folder, ess=ess).reply(request()[0])  # type: ignore[arg-type]
        mine = f"sigstore, a token of the development TSA ({key}, ESS {ess})"
        tally(f"{mine}: accepted", _verdict(folder, response, MESSAGE, tsa.root_file))
        flipped = bytearray(response)
        flipped[-3] ^= 1
        wrong = {
            "another message": (response, MESSAGE + b"x", tsa.root_file),
            "another root": (response, MESSAGE, other.root_file),
            "a flipped bit": (bytes(flipped), MESSAGE, tsa.root_file),
        }
        for what, arguments in wrong.items():
            accepted = not _verdict(folder, *arguments)
            tally(f"{mine}, {what}: refused", "it was accepted" if accepted else "")


def _verdict(folder: Path, response: bytes, message: bytes, root: Path) -> str:
    """Nothing when it was accepted, or why not."""
    (folder / "response").write_bytes(response)
    (folder / "message").write_bytes(message)
    command = [str(PROGRAM), "verify", str(folder / "response"), str(folder / "message"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    return done.stderr or f"exit code {done.returncode}" if done.returncode else ""


def _problem(settings: TsaSettings, query: bytes, nonce: int | None) -> str:
    """Stamp and verify with both of our verifiers: nothing when both accept, or who said what."""

    async def stamp() -> bytes:
        async with TsaHttp(settings) as http:
            return await http.post(query, deadline_seconds=RUN_SECONDS)

    try:
        response = asyncio.run(stamp())
        found = verify_response(response, MESSAGE, settings.trust(), nonce=nonce)
        second_opinion.check(response, MESSAGE, settings.trust(), nonce)
    except (TsaError, TimestampError) as error:
        return str(error)
    age = abs(time.time() - found.gen_time.timestamp())
    return "" if age < RUN_SECONDS else f"its time is {found.gen_time}"


def _settings(url: str, folder: Path) -> TsaSettings:
    """Trust in the last certificate of the chain that the server publishes."""
    with urllib.request.urlopen(f"{url}/certchain", timeout=RUN_SECONDS) as answer:
        end = b"-----END CERTIFICATE-----\n"
        chain = [part + end for part in (answer.read().strip() + b"\n").split(end) if part]
    paths = []
    for number, certificate in enumerate(chain):
        paths.append(folder / f"chain-{number}.pem")
        paths[-1].write_bytes(certificate)
    leaf, *between, root = paths
    values = {"certificate": leaf, "intermediates": between, "roots": [root]}
    values |= {"name": "sigstore", "url": url, "policies": [POLICY]}
    return TsaSettings.model_validate(values)


@contextmanager
def _server(*arguments: str) -> Iterator[str]:
    """A server of theirs on a free port; the URL to post to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(PROGRAM), "serve", str(port), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}/api/v1/timestamp"
    finally:
        process.terminate()
        try:
            process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = process.stderr.read() if process.stderr else b""
            raise RuntimeError(f"timestamps ended: {said.decode('utf-8', 'replace')}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=RUN_SECONDS).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("timestamps did not start")
