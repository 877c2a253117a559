"""A second, independent timestamp authority: certomancer, with its CRLs and OCSP responders.

It shares no code with the development TSA: its own ASN.1, CMS and HTTP. Its quirks are good for us:
it ignores certReq, embeds the signer's certificate alone, names it by SHA-1 alone (ESSCertID of
RFC 2634), and stamps fractions.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from asn1crypto import pem
from certomancer.integrations.animator import FAKE_TIME_HEADER, Animator, AnimatorArchStore
from certomancer.registry import ArchLabel, CertLabel, CertomancerConfig
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

__all__ = ["Certomancer"]

ARCH = "arch"
LISTS_EVERY = "P1D"  # its lists are dated to the start of such a period
_VALIDITY = {"valid-from": "2020-01-01T00:00:00+0000", "valid-to": "2045-01-01T00:00:00+0000"}


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class Certomancer:
    """Serves in threads of its own while it is entered.

    Attributes:
        ahead: how far its clock is ahead of ours; may be set at any time.
    """

    def __init__(self, folder: Path, *, revoked: dict[str, str] | None = None) -> None:
        self.ahead = timedelta()
        self._server = make_server("127.0.0.1", 0, _nothing, threaded=True, request_handler=_Quiet)
        self._prefix = f"http://127.0.0.1:{self._server.port}"
        keys = {name: f"{name}.pem" for name in ("root", "ca", "responder", "tsa-ec", "tsa-rsa")}
        for name, file in keys.items():
            (folder / file).write_bytes(_key(name))
        description = _configuration(self._prefix, keys, revoked or {})
        config = CertomancerConfig(description, key_search_dir=str(folder))
        self._arch = config.pki_archs[ArchLabel(ARCH)]
        self._server.app = self._at_its_time(
            Animator(AnimatorArchStore({ArchLabel(ARCH): self._arch}))
        )
        self._files = {}
        for label in ("root", "ca"):
            self._files[label] = folder / f"{label}-certificate.pem"
            self._files[label].write_bytes(_certificate(self._arch, label))

    def settings(self, label: str) -> dict[str, Any]:
        """The `[[tsa]]` block for one of its services, "tsa-ec" or "tsa-rsa"."""
        return {
            "name": label,
            "url": f"{self._prefix}/{ARCH}/tsa/{label}",
            "roots": [str(self._files["root"])],
            "intermediates": [str(self._files["ca"])],
        }

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _at_its_time(self, app: Any) -> Callable[..., Iterable[bytes]]:
        """Its OCSP answers carry microseconds otherwise, which RFC 6960 does not allow."""
        name = "HTTP_" + FAKE_TIME_HEADER.upper().replace("-", "_")

        def call(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            now = datetime.now(UTC).replace(microsecond=0) + self.ahead
            answer: Iterable[bytes] = app(environ | {name: now.isoformat()}, start)
            return answer

        return call


def _nothing(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    start("503 Service Unavailable", [])
    return [b""]


def _key(name: str) -> bytes:
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if name == "tsa-rsa":
        key = rsa.generate_private_key(65_537, 3_072)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate(arch: Any, label: str) -> bytes:
    return bytes(pem.armor("CERTIFICATE", arch.get_cert(CertLabel(label)).dump()))


def _extension(name: str, value: Any, *, critical: bool = False) -> dict[str, Any]:
    return {"id": name, "critical": critical, "value": value}


def _smart(name: str, schema: str, params: Any, *, critical: bool = False) -> dict[str, Any]:
    return {"id": name, "critical": critical, "smart-value": {"schema": schema, "params": params}}


def _authority(subject: str, issuer: str, *more: dict[str, Any]) -> dict[str, Any]:
    usage = _smart("key_usage", "key-usage", ["key_cert_sign", "crl_sign"], critical=True)
    basic = _extension("basic_constraints", {"ca": True}, critical=True)
    return {
        "subject": subject,
        "issuer": issuer,
        "validity": _VALIDITY,
        "extensions": [basic, usage, *more],
    }


def _leaf(
    subject: str, purpose: str, revoked: dict[str, str], *more: dict[str, Any]
) -> dict[str, Any]:
    usage = _smart("key_usage", "key-usage", ["digital_signature"], critical=True)
    extended = _extension("extended_key_usage", [purpose], critical=True)
    spec = {
        "subject": subject,
        "issuer": "ca",
        "validity": _VALIDITY,
        "extensions": [usage, extended, *more],
    }
    if subject in revoked:
        since = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S+0000")
        spec["revocation"] = {"revoked-since": since, "reason": revoked[subject]}
    return spec


def _configuration(prefix: str, keys: dict[str, str], revoked: dict[str, str]) -> dict[str, Any]:
    """Root, CA, a delegated OCSP responder, and two TSAs: one is asked about by OCSP, one by CRL."""
    lists = "crl_distribution_points", "crl-dist-url"
    by_ocsp = _smart("authority_information_access", "aia-urls", {"ocsp-responder-names": ["ca"]})
    by_crl = _smart(*lists, {"crl-repo-names": ["ca"]})
    arch = {
        "keyset": "keys",
        "entities": {name: {"common-name": f"Certomancer {name}"} for name in keys},
        "certs": {
            "root": _authority("root", "root"),
            "ca": _authority("ca", "root", _smart(*lists, {"crl-repo-names": ["root"]})),
            "responder": _leaf("responder", "ocsp_signing", {}, {"id": "ocsp_no_check"}),
            "tsa-ec": _leaf("tsa-ec", "time_stamping", revoked, by_ocsp),
            "tsa-rsa": _leaf("tsa-rsa", "time_stamping", revoked, by_crl),
        },
        "services": {
            "ocsp": {"ca": {"for-issuer": "ca", "responder-cert": "responder"}},
            "crl-repo": {
                name: {"for-issuer": name, "simulated-update-schedule": LISTS_EVERY}
                for name in ("root", "ca")
            },
            "time-stamping": {name: {"signing-cert": name} for name in ("tsa-ec", "tsa-rsa")},
        },
    }
    return {
        "external-url-prefix": prefix,
        "keysets": {"keys": {"keys": {name: {"path": file} for name, file in keys.items()}}},
        "pki-architectures": {ARCH: arch},
    }
