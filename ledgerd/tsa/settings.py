"""One timestamp authority as the operator describes it: `[[tsa]]` in the TOML file.

Everything about it is explicit: its URL, the roots its tokens must lead to, its policies, and the
time in which it is believed. Nothing is shared between two of them: a token must satisfy one record
entirely. Secrets are named as files, never written here, so a configuration can be shown.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path  # noqa: TC003 - pydantic looks the annotation up
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, Field, field_validator, model_validator
from yarl import URL

from ledgerd.tsa.pem import check_pin, read_authorities, read_certificates, read_roots
from ledgerd.tsa.words import shown, shown_url, without_userinfo
from receiptledger.core.timestamp_types import TsaTrust

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Oid", "TsaSettings"]

MAX_URL = 2_048
# X.660: under 0 and 1 there are 40 arcs each.
_OID = re.compile(
    r"([01]\.([0-9]|[1-3][0-9])|2\.(0|[1-9][0-9]{0,39}))(\.(0|[1-9][0-9]{0,39})){0,29}", re.ASCII
)


def _is_oid(value: str) -> str:
    if not _OID.fullmatch(value):
        raise ValueError(
            f"expected object identifiers such as 1.3.6.1.4.1.32473.1, got {shown(value)}"
        )
    return value


def _is_url(value: str) -> str:
    if len(value) > MAX_URL or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"expected an http or https URL of at most {MAX_URL} ASCII characters")
    try:
        url = URL(value)
    except ValueError:  # its words may quote a part of a password
        raise ValueError(f"expected an http or https URL, got {shown_url(value)}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"expected an http or https URL, got {shown_url(value)}")
    if url.fragment:
        raise ValueError("a fragment is never sent: leave the # out, and what follows it")
    return value


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Oid = Annotated[str, Field(max_length=255)]


class TsaSettings(BaseModel):
    """One timestamp authority (TSA). Times are UTC; files are PEM unless said otherwise."""

    model_config = {"extra": "forbid", "frozen": True}

    name: Name = Field(
        description="Short name, in every anchor leaf, metric and report. For ever: a renamed TSA is "
        "another one."
    )
    authority: str = Field(
        default_factory=lambda data: str(data.get("name", "")),
        min_length=1,
        max_length=64,
        description="Who runs it; default: its name. A quorum counts authorities, so two URLs of one "
        "operator must carry the same.",
    )
    url: str = Field(description="Where requests are posted, http or https.")
    roots: tuple[Path, ...] = Field(
        min_length=1,
        description="Files with the root certificates its tokens must lead to, self-issued ones. Get "
        "them from the operator, not from a token. Keep an old root beside the new one: stored tokens "
        "still need it.",
    )
    intermediates: tuple[Path, ...] = Field(
        default=(), description="Files with CA certificates that its tokens leave out."
    )
    certificate: Path | None = Field(
        default=None,
        description="File with its one certificate, to accept no other; the CAs between it and the root "
        "must then be under intermediates. TSAs change theirs at least every 15 months; leave it out "
        "unless you follow that.",
    )
    policies: tuple[Oid, ...] = Field(
        default=(), description="Policies a token may carry, as object identifiers; empty: any."
    )
    request_policy: Oid | None = Field(
        default=None, description="Policy to ask for; default: the TSA chooses."
    )
    hash: Literal["sha256", "sha384", "sha512"] = Field(
        default="sha256", description="Digest that is stamped; some TSAs take only sha512."
    )
    trusted_from: AwareDatetime | None = Field(
        default=None, description="Tokens dated earlier are not believed."
    )
    trusted_until: AwareDatetime | None = Field(
        default=None, description="Tokens dated later are not believed; set it when a TSA retires."
    )
    timeout_seconds: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] = Field(
        default=10,
        description="Seconds for a whole request, from connecting to the last byte. A slower answer "
        "is suspect.",
    )
    bearer_token_file: Path | None = Field(
        default=None, description="File with a bearer token; read again for each request."
    )
    username: str | None = Field(
        default=None, min_length=1, max_length=256, description="User for basic authentication."
    )
    password_file: Path | None = Field(
        default=None, description="File with the user's password; read again for each request."
    )
    client_certificate_file: Path | None = Field(
        default=None, description="File with our certificate for TLS, its chain behind it."
    )
    client_key_file: Path | None = Field(
        default=None, description="File with its key; default: it is in the certificate's file."
    )
    ca_file: Path | None = Field(
        default=None,
        description="File with CA certificates that may vouch for its web server, besides the system's.",
    )
    proxy: str | None = Field(
        default=None,
        description="URL of an HTTP proxy. Proxies in the environment are not looked at.",
    )
    accept_201: bool = Field(
        default=False, description="Take status 201 for success too: old sigstore servers send it."
    )
    strict_only: bool = Field(
        default=False,
        description="Do without the second verifier, which cannot read Ed25519, RSA-PSS and signers "
        "named by key identifier. Only for a TSA that needs it.",
    )
    max_clock_skew_seconds: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = Field(
        default=30,
        description="Seconds that its clock and ours may differ, beyond the token's own accuracy.",
    )

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        url = URL(_is_url(value))
        if url.user is not None or url.password is not None:
            raise ValueError("no credentials in the URL: use username and password_file")
        return value

    @field_validator("proxy")
    @classmethod
    def _proxy(cls, value: str | None) -> str | None:
        return None if value is None else _is_url(value)

    @field_validator("policies", "request_policy")
    @classmethod
    def _policies(cls, value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        for oid in (value,) if isinstance(value, str) else value or ():
            _is_oid(oid)
        return value

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.username is not None and self.bearer_token_file is not None:
            raise ValueError("give a bearer_token_file or a username, not both")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.client_key_file is not None and self.client_certificate_file is None:
            raise ValueError("client_key_file needs client_certificate_file")
        secure = URL(self.url).scheme == "https"
        if not secure and (self.client_certificate_file or self.ca_file):
            raise ValueError("client_certificate_file and ca_file need an https URL")
        secret = self.username is not None or self.bearer_token_file is not None
        if secret and not secure and not _is_loopback(URL(self.url)):
            raise ValueError("credentials over http can be read on the way: use an https URL")
        if self.request_policy and self.policies and self.request_policy not in self.policies:
            raise ValueError(f"request_policy {self.request_policy} is not among policies")
        if self.trusted_from and self.trusted_until and self.trusted_from >= self.trusted_until:
            raise ValueError("trusted_from must lie before trusted_until")
        return self

    @property
    def place(self) -> tuple[str, str | None, int | None, str]:
        """Where requests go, in one spelling: two settings with the same one ask the same server."""
        url = URL(self.url)
        return url.scheme, url.host, url.port, url.raw_path_qs

    def as_written(self) -> dict[str, Any]:
        """What the operator wrote, ready for JSON; without a password in the proxy's URL."""
        values = self.model_dump(mode="json", exclude_unset=True)
        if self.proxy is not None:
            values["proxy"] = without_userinfo(self.proxy)
        return values

    def outside_trust(self, now: datetime) -> str | None:
        """Why no token of this moment would be believed; None when one would be.

        Args:
            now: aware.
        """
        if self.trusted_until is not None and now > self.trusted_until:
            return (
                f"trusted_until was {self.trusted_until.isoformat()}: every token it makes now is "
                "refused (trust_window). Remove it, or move trusted_until"
            )
        if self.trusted_from is not None and now < self.trusted_from:
            return (
                f"trusted_from is {self.trusted_from.isoformat()}: every token it makes before is "
                "refused (trust_window)"
            )
        return None

    def trust(self) -> TsaTrust:
        """What the verifier believes of this TSA, its certificates read from their files.

        Raises:
            ValueError: when a file cannot be read or holds what is no certificate of its kind; the
                message says which file, and what to do.
        """
        pinned = None
        if self.certificate is not None:
            certificates = read_certificates(self.certificate)
            if len(certificates) != 1:
                raise ValueError(
                    f"{self.certificate} holds {len(certificates)} certificates: the setting "
                    "`certificate` wants the TSA's own alone; put the others under `intermediates`"
                )
            (pinned,) = certificates
        # Our own verifier takes any CA for an anchor, the second one takes roots alone.
        roots = read_authorities(self.roots) if self.strict_only else read_roots(self.roots)
        intermediates = read_authorities(self.intermediates)
        if self.certificate is not None and pinned is not None:
            check_pin(self.certificate, pinned, intermediates, roots)
        return TsaTrust(
            name=self.name,
            authority=self.authority,
            roots=roots,
            intermediates=intermediates,
            certificate=pinned,
            policies=frozenset(self.policies),
            trusted_from=self.trusted_from,
            trusted_until=self.trusted_until,
        )


def _is_loopback(url: URL) -> bool:
    if url.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.host or "").is_loopback
    except ValueError:
        return False
