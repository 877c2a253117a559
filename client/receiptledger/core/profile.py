"""Receipt formats as data: which member of a receipt means what, and which bytes are signed.

A :class:`Profile` is made from TOML (proto/FORMATS.md has the members and their meaning), checked
strictly, and compiled to readers once (`profile_compile`). What the check guarantees for every profile:

* every member of the data is known and present; "none" is said, never implied;
* agent, stream, sequence, previous hash and time lie inside the signed bytes;
* the signature lies outside them;
* members outside that the format does not name are refused, unless the data says "list".

A :class:`Profiles` is an ordered set of formats. One receipt can match several: they are candidates
in order, and the signature decides which one the receipt follows.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from receiptledger.core import profiles
from receiptledger.core.canonical import shown
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile_compile import compile_profile
from receiptledger.core.profile_detect import Detection
from receiptledger.core.profile_types import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Profile", "Profiles", "compile_profile"]


class Profiles:
    """An ordered set of formats.

    Raises:
        ValueError: for two formats of one id.
    """

    def __init__(self, formats: Iterable[Profile]) -> None:
        self._by_id: dict[str, Profile] = {}
        for profile in formats:
            if self._by_id.setdefault(profile.id, profile) is not profile:
                raise ValueError(f"two receipt formats have the id {profile.id}")
        self._all = tuple(self._by_id.values())
        self._detection = Detection(self._all)

    @staticmethod
    @cache
    def builtin() -> Profiles:
        """The formats that come with this package; one object for the whole process."""
        return Profiles(compile_profile(text, name) for name, text in profiles.read_sources())

    @staticmethod
    def with_folder(sources: Sequence[tuple[str, str]]) -> Profiles:
        """The built-in formats, then an operator's.

        Args:
            sources: (file name, TOML) of each.

        Raises:
            ValueError: naming the file and what is wrong in it.
        """
        if not sources:
            return Profiles.builtin()
        found = list(Profiles.builtin()._all)
        known = {profile.id for profile in found}
        for name, text in sources:
            profile = compile_profile(text, name)
            if profile.id in known:
                raise ValueError(f"{name}: the receipt format {profile.id} exists already")
            known.add(profile.id)
            found.append(profile)
        return Profiles(found)

    def ids(self) -> tuple[str, ...]:
        """Ids of the formats, in order."""
        return tuple(self._by_id)

    def get(self, profile_id: str) -> Profile:
        """The format of that id.

        Raises:
            ReceiptError: UNKNOWN_PROFILE.
        """
        profile = self._by_id.get(profile_id)
        if profile is None:
            raise self._unknown("the receipt format is not known here", shown(profile_id))
        return profile

    def candidates(self, value: dict[str, Any]) -> tuple[Profile, ...]:
        """The formats a parsed receipt may be of, preferred first; empty when none matches."""
        return self._detection.candidates(value)

    def find(self, value: dict[str, Any], profile_id: str | None = None) -> tuple[Profile, ...]:
        """The candidates, at least one; only the named format when one is named.

        Raises:
            ReceiptError: UNKNOWN_PROFILE when the named format is unknown or none matches,
                INVALID_FIELD when the receipt is not of the named format.
        """
        if profile_id is not None:
            profile = self.get(profile_id)
            profile.require(value)
            return (profile,)
        found = self.candidates(value)
        if not found:
            names = shown(", ".join(sorted(value)))
            raise self._unknown("no known receipt format matches", f"the members {names}")
        return found

    def _unknown(self, message: str, got: str) -> ReceiptError:
        want = "one of " + ", ".join(self._by_id)
        return ReceiptError(Reason.UNKNOWN_PROFILE, message, want=want, got=got)
