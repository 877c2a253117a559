"""Why an RFC 3161 timestamp was refused: one closed list, from the verifier to the metrics.

Every refusal of a timestamp is a :class:`TimestampError`. Its reason is always BAD_TIMESTAMP; its
cause is what programs branch on: the anchorer decides by it whether to try again, wait or raise an
alarm, and a metric counts by it. The causes at the end come only from the daemon, which asks over a
network; they are here so that the list is one.
"""

from __future__ import annotations

from enum import StrEnum, unique

from receiptledger.core.errors import EvidenceError, Reason

__all__ = ["Cause", "TimestampError"]


@unique
class Cause(StrEnum):
    """Why a timestamp does not count. Closed: adding one changes metrics and reports."""

    # The bytes.
    TOO_LARGE = "too_large"  # more than 64 KiB
    DER = "der"  # not the one DER form: truncated, trailing bytes, depth, BER lengths, wrong tag
    # What the authority answered (RFC 3161 section 2.4.2, PKIStatus and PKIFailureInfo).
    STATUS_GRANTED_WITH_MODS = "status_granted_with_mods"
    STATUS_REJECTION = "status_rejection"  # without a failInfo bit that says more
    STATUS_WAITING = "status_waiting"
    STATUS_REVOCATION_WARNING = "status_revocation_warning"
    STATUS_REVOCATION_NOTIFICATION = "status_revocation_notification"
    STATUS_UNKNOWN = "status_unknown"
    BAD_ALG = "bad_alg"
    BAD_REQUEST = "bad_request"
    BAD_DATA_FORMAT = "bad_data_format"
    TIME_NOT_AVAILABLE = "time_not_available"
    UNACCEPTED_POLICY = "unaccepted_policy"
    UNACCEPTED_EXTENSION = "unaccepted_extension"
    ADD_INFO_NOT_AVAILABLE = "add_info_not_available"
    SYSTEM_FAILURE = "system_failure"
    NO_TOKEN = "no_token"  # granted, and yet no token  # noqa: S105 - no password
    # What the token says (TSTInfo).
    CONTENT_TYPE = "content_type"  # not CMS signed data, or not over a TSTInfo
    SIGNERS = "signers"  # not exactly one signer
    TST_VERSION = "tst_version"
    HASH_ALGORITHM = "hash_algorithm"  # other than SHA-256, SHA-384, SHA-512
    IMPRINT = "imprint"  # a timestamp of another message
    SERIAL = "serial"  # longer than 160 bits
    GEN_TIME = "gen_time"
    ACCURACY = "accuracy"  # malformed, wider than allowed, or absent although required
    NONCE = "nonce"
    POLICY = "policy"  # not one of the authority's configured policies
    CRITICAL_EXTENSION = "critical_extension"  # in the TSTInfo, not understood
    TSA_NAME = "tsa_name"  # TSTInfo.tsa is not a name of the signer
    # Who signed it, and how.
    CERTIFICATE = "certificate"  # a certificate that is needed cannot be read
    NO_SIGNER_CERTIFICATE = "no_signer_certificate"  # neither embedded nor configured
    NO_SIGNED_ATTRIBUTES = "no_signed_attributes"
    SIGNED_ATTRIBUTE = "signed_attribute"  # contentType, messageDigest or protection is wrong
    ESS = "ess"  # the signing-certificate attribute is absent or names another certificate
    TSA_PIN = "tsa_pin"  # signed by another certificate than the pinned one
    WEAK_KEY = "weak_key"
    SIGNATURE_ALGORITHM = "signature_algorithm"
    SIGNATURE = "signature"
    CHAIN = "chain"  # no path to a configured root that was valid at genTime
    EKU = "eku"  # extendedKeyUsage is not critical and exactly timeStamping
    KEY_USAGE = "key_usage"
    REVOKED = "revoked"
    EVIDENCE = "evidence"  # a CRL or OCSP response is itself bad
    # When.
    TRUST_WINDOW = "trust_window"  # outside the time in which this authority is trusted
    TIME_WINDOW = "time_window"  # genTime fits neither our clock nor the checkpoint
    ALGORITHM_EXPIRED = "algorithm_expired"  # by the dated algorithm table
    EXPIRED_NOT_RENEWED = "expired_not_renewed"  # was good, trust was not renewed in time
    RENEWAL_ORDER = "renewal_order"  # a renewal is not later than what it renews
    RENEWAL_LATE = "renewal_late"  # renewed after the renewed one had expired
    RENEWAL_LINK = "renewal_link"  # a renewal does not stamp the token before it
    UNKNOWN_TSA = "unknown_tsa"  # no configured authority of that name
    # Only from the daemon, which asks over a network.
    TIMEOUT = "timeout"
    TRANSPORT = "transport"
    CREDENTIALS = "credentials"  # a file of ours with a secret, key or CA cannot be used
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    RATE_LIMITED = "rate_limited"
    REDIRECT = "redirect"
    MEDIA_TYPE = "media_type"
    CONTENT_ENCODING = "content_encoding"
    EMPTY_BODY = "empty_body"
    SECOND_OPINION = "second_opinion"  # the second, independent verifier refuses
    LOST = "lost"  # a request whose answer a crash took away


class TimestampError(EvidenceError):
    """A timestamp does not prove what it should.

    Attributes:
        cause: what is wrong, from the closed list. `reason` is always BAD_TIMESTAMP.
    """

    def __init__(
        self, cause: Cause, message: str, *, want: str | None = None, got: str | None = None
    ) -> None:
        super().__init__(Reason.BAD_TIMESTAMP, message, want=want, got=got)
        self.cause = cause

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.cause})"
