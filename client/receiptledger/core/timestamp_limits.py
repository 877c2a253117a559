"""How much of a foreign timestamp is looked at: every bound of the strict verifier, in one place.

Whoever makes a token, a CRL or an OCSP response chooses its contents, and an auditor verifies many of
them. So nothing may cost more than its bytes promise: each bound is a few times what authorities in use
need, and beyond it the bytes are refused, not read on. Together they keep a token of 64 KiB below some
25 ms and a list below some 50 ms for each MiB.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CACHED_CERTIFICATES",
    "CACHED_CERTIFICATE_BYTES",
    "CACHED_EVIDENCE",
    "CACHED_EVIDENCE_BYTES",
    "CACHED_FINDINGS",
    "CACHED_SIGNATURES",
    "CACHED_TOKENS",
    "CACHED_TOKEN_BYTES",
    "MAX_BLOBS",
    "MAX_BYTES",
    "MAX_CERTIFICATES",
    "MAX_CERTIFICATE_BYTES",
    "MAX_CERTIFICATE_NODES",
    "MAX_CRL_BYTES",
    "MAX_CURVE_BITS",
    "MAX_DEPTH",
    "MAX_ENTRY_NODES",
    "MAX_ESS_ENTRIES",
    "MAX_ESS_NAMES",
    "MAX_EXTENSIONS",
    "MAX_FOLDED_BYTES",
    "MAX_INTEGER_BYTES",
    "MAX_LISTED",
    "MAX_LIST_NODES",
    "MAX_NAME_ATTRIBUTES",
    "MAX_NAME_BYTES",
    "MAX_NODES",
    "MAX_OCSP_ANSWERS",
    "MAX_OCSP_BYTES",
    "MAX_OCSP_CERTIFICATES",
    "MAX_OCSP_NODES",
    "MAX_PATH",
    "MAX_RSA_BITS",
    "MAX_RSA_EXPONENT",
    "MAX_SALT_BYTES",
    "MAX_SIGNATURES",
    "MAX_TOKEN_NODES",
    "MAX_USAGE_BYTES",
    "MIN_RSA_BITS",
]

# DER in general.
MAX_BYTES: Final = 65_536  # bytes of a response or token; real ones have 0.5 to 8 KB
MAX_DEPTH: Final = 32  # levels of values in values
MAX_NODES: Final = 4_000  # values, where nothing narrower is said
MAX_INTEGER_BYTES: Final = 64  # bytes of an INTEGER or OID; serials have 20, nonces 32

# A token.
MAX_TOKEN_NODES: Final = 1_000  # values of each of its layers, certificates aside; real: below 150
MAX_CERTIFICATES: Final = 16  # embedded ones; real tokens bring at most five
MAX_ESS_ENTRIES: Final = 16  # certificates that one signing-certificate attribute names; real: four
MAX_ESS_NAMES: Final = 4  # names of the issuer of one of them; RFC 5035 allows one

# A certificate.
MAX_CERTIFICATE_BYTES: Final = 16_384  # bytes; real ones have 0.5 to 3 KB
MAX_CERTIFICATE_NODES: Final = 512  # values, extensions that are opened included; real: 60 to 200
MAX_EXTENSIONS: Final = 24  # of a certificate, list, entry, answer or TSTInfo; real: at most 15
MAX_LISTED: Final = 16  # purposes, names or distribution points in one extension; real: below six
MAX_USAGE_BYTES: Final = 4  # bytes of keyUsage or failInfo; real ones have up to two, and four
MAX_NAME_BYTES: Final = 1_024  # bytes of a Name; real ones have some 100
MAX_NAME_ATTRIBUTES: Final = 32  # attributes of a Name; real ones have at most twelve
MAX_FOLDED_BYTES: Final = 256  # bytes; a longer Name is the same only byte for byte

# A key, and a path of certificates.
MIN_RSA_BITS: Final = 2_048  # bits of an RSA modulus, unless the rules ask for more
MAX_RSA_BITS: Final = 8_192  # bits; each doubling costs four times as much
MAX_CURVE_BITS: Final = 384  # of curves that are not allowed, where it is asked who signed
MAX_RSA_EXPONENT: Final = 1 << 32  # value; real ones are 65537 or 3, and the cost grows with it
MAX_SALT_BYTES: Final = 512  # bytes of an RSASSA-PSS salt: no RSA key in use has room for more
MAX_PATH: Final = 8  # certificates from signer to root; four is the longest known
MAX_SIGNATURES: Final = 12  # pairs of certificate and issuer that are verified for one path

# Evidence of revocation.
MAX_BLOBS: Final = 32  # CRLs and OCSP responses together: a path has at most seven to ask about
MAX_CRL_BYTES: Final = 1_048_576  # bytes
MAX_LIST_NODES: Final = 256  # values of a list's head, its entries aside; real: below 60
MAX_ENTRY_NODES: Final = 128  # values of one entry of a list, or of one extension; real: below 12
MAX_OCSP_BYTES: Final = 262_144  # bytes
MAX_OCSP_NODES: Final = 2_000  # values of a response; real: below 250
MAX_OCSP_ANSWERS: Final = 64  # answers in one response; real ones give one
MAX_OCSP_CERTIFICATES: Final = 8  # certificates in one response; real ones bring one or two

# What is kept of what was read, so that the next authority or stamp costs little: a few MiB in all.
CACHED_TOKENS: Final = 8  # responses, and as many tokens
CACHED_TOKEN_BYTES: Final = 262_144  # bytes
CACHED_CERTIFICATES: Final = 256  # certificates, unreadable ones included
CACHED_CERTIFICATE_BYTES: Final = 1_048_576  # bytes
CACHED_SIGNATURES: Final = 64  # pairs of certificate and issuer, for each token that is kept
CACHED_EVIDENCE: Final = 64  # CRLs, and as many OCSP responses
CACHED_EVIDENCE_BYTES: Final = 2_097_152  # bytes of CRLs, and as many of OCSP responses
CACHED_FINDINGS: Final = 16  # pairs of certificate and issuer, for each list that is kept
