"""The ways in which a timestamp authority goes wrong over HTTP, each by a name.

Every mode is one that was seen in the wild, or that a hostile server would choose. A client that
survives all of them with the right cause, in bounded time and memory, survives its authorities.
"""

from __future__ import annotations

from enum import StrEnum, unique

__all__ = ["Mode"]


@unique
class Mode(StrEnum):
    """What the server does with a timestamp request."""

    OK = "ok"
    NOT_FOUND = "404"
    TOO_MANY = "429"  # with Retry-After: 7
    ERROR = "500"
    MAINTENANCE = "503"  # with Retry-After: 120
    REDIRECT = "redirect"  # 302 to where a stamp could be had: a client must not go there
    LOOP = "loop"  # 307 to itself
    HTML = "html"  # 200 with a portal's page
    WRONG_TYPE = "wrong-type"  # a good response under another media type
    EMPTY = "empty"  # 200 without a body
    TRUNCATED = "truncated"  # all that was announced, but the DER is cut short
    GARBAGE = "garbage"  # noise under the right media type
    HUGE = "huge"  # a gibibyte, announced
    HUGE_CHUNKED = "huge-chunked"  # a gibibyte, unannounced
    SLOW_HEADERS = "slow-headers"  # no answer for a long time
    SLOW_BODY = "slow-body"  # a good response, one byte four times a second
    CLOSE = "close"  # more bytes announced than sent
    REPLAY = "replay"  # the first response again and again
