"""Puts the certificates of a timestamp response into DER order, in memory, for a reader that insists.

DER sorts the elements of a SET OF (X.690 section 11.6). OpenSSL, and with it many TSAs, write the
certificates of a token in the order they come, and rfc3161-client refuses that. The field is not
covered by the signature, so sorting it is a permutation of whole elements: no length changes and no
other byte moves. What is stored is always the response as it came; this copy is only looked at.
"""

from __future__ import annotations

__all__ = ["sort_certificates"]

_SEQUENCE, _OID, _CONTEXT_0 = 0x30, 0x06, 0xA0
Element = tuple[int, int, int, int]  # tag, start, start of the value, end


def sort_certificates(response: bytes) -> bytes:
    """A TimeStampResp with its token's certificates in DER order; without a token as it came.

    Raises:
        ValueError: when the bytes are not shaped like one; nothing deeper than needed is read.
    """
    (top,) = _exactly(response, 0, len(response), (_SEQUENCE,))
    parts = _elements(response, top)
    if not parts or parts[0][0] != _SEQUENCE or len(parts) > 2:
        raise ValueError("not a TimeStampResp")
    if len(parts) == 1:
        return response
    _, content = _exactly(response, parts[1][2], parts[1][3], (_OID, _CONTEXT_0))
    (signed,) = _exactly(response, content[2], content[3], (_SEQUENCE,))
    for element in _elements(response, signed):
        if element[0] == _CONTEXT_0:  # certificates [0] IMPLICIT; eContent lies a level deeper
            _, _, start, end = element
            certificates = sorted(response[c[1] : c[3]] for c in _elements(response, element))
            return response[:start] + b"".join(certificates) + response[end:]
    return response


def _exactly(data: bytes, start: int, end: int, tags: tuple[int, ...]) -> list[Element]:
    found = _elements(data, (0, start, start, end))
    if tuple(element[0] for element in found) != tags:
        raise ValueError("not a TimeStampResp")
    return found


def _elements(data: bytes, parent: Element) -> list[Element]:
    """The elements within a value, one level, definite lengths only."""
    _, _, at, end = parent
    found = []
    while at < end:
        element = _element(data, at, end)
        found.append(element)
        at = element[3]
    return found


def _element(data: bytes, start: int, end: int) -> Element:
    if start + 2 > end:
        raise ValueError("truncated")
    tag, length, at = data[start], data[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise ValueError("a tag of more than one byte")
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or at + count > end:
            raise ValueError("an indefinite or very long length")
        length, at = int.from_bytes(data[at : at + count]), at + count
    if at + length > end:
        raise ValueError("truncated")
    return tag, start, at, at + length
