"""An answerproof receipt's sources held against their contents, which the auditor has from elsewhere.

A content hash is over the exact text in UTF-8. Line ends and Unicode forms change on the way through
editors and databases: where that is all there is to it, it is said.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import Limits, describe, parse, shown
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.verdict import Check, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["MAX_SOURCES", "MAX_SOURCES_BYTES", "check_contents", "check_overlap", "read_sources"]

MAX_SOURCES_BYTES = 64 * 1024 * 1024
MAX_SOURCES = 100_000
_BEFORE = b'{"sources":'
MAX_COMPARED = 4 * 1024 * 1024  # characters of contents that are cut into words for one receipt

_CONTENTS, _OVERLAP = "source contents", "overlap"
_SHOWN = 3  # faults that are told
_METHOD: Final = re.compile(r"([1-9])gram-overlap")
_WORD: Final = re.compile(r"\w+")
_TOLERANCE = 1e-6

_CHANGES: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("without the line end at its end", lambda text: text.removesuffix("\n").removesuffix("\r")),
    ("with a line end at its end", lambda text: text + "\n"),
    ("with \\n as line ends", lambda text: text.replace("\r\n", "\n")),
    ("with \\r\\n as line ends", lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n")),
    ("without white space around it", str.strip),
    ("in Unicode's form NFC", lambda text: unicodedata.normalize("NFC", text)),
    ("in Unicode's form NFD", lambda text: unicodedata.normalize("NFD", text)),
)


def read_sources(data: bytes) -> dict[str, str]:
    """The contents an auditor gives: a JSON object from source id to text, or an array of sources.

    Args:
        data: `{"id": "content"}` or `[{"id": "id", "content": "content"}]`.

    Raises:
        ReceiptError: MALFORMED or TOO_LARGE from the parser, INVALID_FIELD for a content that is no
            text, since answerproof hashes text only, or an array of anything else or with an id twice.
    """
    if data.lstrip(b" \t\r\n").startswith(b"["):
        return _listed(data)
    limits = Limits(max_bytes=MAX_SOURCES_BYTES, max_depth=2, max_members=MAX_SOURCES)
    value = parse(data, limits).value
    for name, text in value.items():
        if type(text) is not str:
            raise ReceiptError(
                Reason.INVALID_FIELD,
                f"the content of source {shown(name)} has the wrong form",
                want='text, as in {"source id": "its content"}',
                got=describe(text),
            )
    return value


def _listed(data: bytes) -> dict[str, str]:
    """The contents of an array. The parser takes objects, so it becomes the one member of one."""
    limits = Limits(
        max_bytes=MAX_SOURCES_BYTES + len(_BEFORE) + 1, max_depth=4, max_members=4 * MAX_SOURCES
    )
    value = parse(_BEFORE + data + b"}", limits).value
    if len(value) != 1:  # the array ended, and further members came
        raise ReceiptError(
            Reason.MALFORMED, "not one JSON document", want="one array", got="more after it"
        )
    found: dict[str, str] = {}
    for at, item in enumerate(value["sources"]):
        fits = type(item) is dict and item.keys() == {"id", "content"}
        if not fits or not all(type(text) is str for text in item.values()):
            raise ReceiptError(
                Reason.INVALID_FIELD,
                f"source {at} has the wrong form",
                want='{"id": "source id", "content": "its content"}',
                got=describe(item),
            )
        if item["id"] in found:
            raise ReceiptError(
                Reason.INVALID_FIELD,
                f"two sources have the id {shown(item['id'])}",
                want="each id once",
                got=f"it again as source {at}",
            )
        found[item["id"]] = item["content"]
    return found


def check_contents(payload: dict[str, Any], sources: Mapping[str, str] | None) -> Check:
    """The check "source contents": each content given is the one of a source's hash.

    Args:
        payload: completed, see `answerproof_form`.
        sources: contents by source id; None or empty when there are none.
    """
    if not sources:
        return Check(
            _CONTENTS,
            Status.NOT_CHECKED,
            "no contents given: what the sources said is not shown, only that it is fixed by hashes",
        )
    faults, fitting = [], 0
    left = dict(sources)
    for source in payload["sources"]:  # all of an id, not the last: see `answerproof`
        text = sources.get(source["id"])
        left.pop(source["id"], None)
        if text is None:
            continue
        if _hash(text) == source["content_hash"]:
            fitting += 1
        else:
            faults.append(_misfit(source, text))
    faults += [f"{shown(name)} is no source of this receipt" for name in left]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        words = "; ".join(faults[:_SHOWN]) + more
        return Check(_CONTENTS, Status.FAIL, words, Reason.BAD_PROOF)
    return Check(_CONTENTS, Status.PASS, _fitting(payload, sources, fitting))


def _fitting(payload: dict[str, Any], sources: Mapping[str, str], fitting: int) -> str:
    cited = set(payload["cited_source_ids"])
    missing = [source["id"] for source in payload["sources"] if source["id"] not in sources]
    words = (
        f"{fitting} of {len(payload['sources'])} contents given, each is the one that was hashed"
    )
    if missing:
        among = sum(name in cited for name in missing)
        words += f"; not given: {', '.join(map(shown, missing[:_SHOWN]))}"
        words += f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        words += f" ({among} of them cited)"
    return words


def _hash(text: str) -> str:
    return digest_text(sha256(text.encode("utf-8", "surrogatepass")).digest())


def _misfit(source: dict[str, Any], text: str) -> str:
    wanted = source["content_hash"]
    words = f"the content given for {shown(source['id'])} is another than was hashed: expected "
    words += f"{shown(wanted)}, got {_hash(text)}"
    for how, change in _CHANGES:
        if _hash(change(text)) == wanted:
            return f"{words}; {how} it would fit"
    return words


# The scores of citations, computed anew.


def check_overlap(payload: dict[str, Any], sources: Mapping[str, str] | None) -> Check:
    """The check "overlap": scores of citations are what the contents given lead to.

    answerproof's score is the share of a quote's runs of n words that are also in the source. Nothing
    but the signer's word stands for it unless the contents are at hand.

    Args:
        payload: completed, see `answerproof_form`.
        sources: contents by source id; None or empty when there are none.
    """
    hashes = {source["id"]: source["content_hash"] for source in payload["sources"]}
    words = _Words(sources or {})
    faults: list[str] = []
    unsure: list[str] = []
    computed = 0
    for at, citation in enumerate(payload["citations"]):
        name, method = citation["source_id"], _METHOD.fullmatch(citation["method"])
        text = (sources or {}).get(name)
        if text is None or method is None or _hash(text) != hashes.get(name):
            continue
        score = words.score(citation["quote"], name, int(method[1]))
        if score is None:
            continue
        computed += 1
        if abs(score - citation["score"]) > _TOLERANCE:
            fault = f"score of citation {at} is {citation['score']}, computed {score}"
            # What a letter is, beyond ASCII, differs between versions of Unicode.
            (faults if text.isascii() and citation["quote"].isascii() else unsure).append(fault)
    if faults or unsure:
        told = "; ".join((faults or unsure)[:_SHOWN])
        status, reason = (Status.FAIL, Reason.INVALID_FIELD) if faults else (Status.UNKNOWN, None)
        return Check(_OVERLAP, status, told, reason)
    count = len(payload["citations"])
    if not computed:
        return Check(
            _OVERLAP, Status.NOT_CHECKED, f"none of {count} scores can be computed anew here"
        )
    return Check(_OVERLAP, Status.PASS, f"{computed} of {count} scores computed anew, all the same")


class _Words:
    """Runs of words of contents, each content cut once for each length of run, up to a bound."""

    def __init__(self, contents: Mapping[str, str]) -> None:
        self._contents = contents
        self._runs: dict[tuple[str, int], set[tuple[str, ...]]] = {}
        self._left = MAX_COMPARED

    def score(self, quote: str, name: str, length: int) -> float | None:
        """Share of the quote's runs of words that are in the content; None: more than is compared."""
        words = _words(quote)
        length = min(length, len(words))
        if not length:
            return 0.0
        if (name, length) not in self._runs:
            self._left -= len(self._contents[name])
            if self._left < 0:
                return None
            self._runs[name, length] = set(_cut(_words(self._contents[name]), length))
        own = set(_cut(words, length))
        return round(len(own & self._runs[name, length]) / len(own), 4)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _cut(words: list[str], length: int) -> Iterator[tuple[str, ...]]:
    """Every run of so many words; all of them where there are fewer."""
    for at in range(max(1, len(words) - length + 1)):
        run = tuple(words[at : at + length])
        if run:
            yield run
