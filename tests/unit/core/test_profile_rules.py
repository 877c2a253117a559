"""Rules of a format's data about the form of a member, or about several members."""

from __future__ import annotations

from typing import Any

import pytest

from receiptledger.core.profile import Profiles, compile_profile
from tests.helpers.profile_data import toml

KEY = "0a" * 32


def matches(rules: str, value: dict[str, Any]) -> bool:
    profile = compile_profile(toml(detect=rules), "made-up.toml")
    return bool(Profiles([profile]).candidates(value))


@pytest.mark.parametrize(
    ("name", "held", "others"),
    [
        ("key", [KEY], ["", KEY[:-1], KEY + "0", KEY.upper(), KEY + "\n", None, 7, [KEY]]),
        ("name", ["", "key-1", KEY[:-1], KEY.upper()], [KEY, None, 7, ["key-1"]]),
        ("filled", ["a", ["a"], [None], {"a": None}], ["", [], {}, None, 0, 1, True]),
    ],
)
def test_forms(name: str, held: list[Any], others: list[Any]) -> None:
    rule = f'[{{ path = "a.b", is = "{name}" }}]'
    for item in held:
        assert matches(rule, {"a": {"b": item}})
    for item in others:
        assert not matches(rule, {"a": {"b": item}})
    assert not matches(rule, {"a": {}})
    assert not matches(rule, {})


def test_one_of_several_rules() -> None:
    either = '{ path = "a", is = "filled" }, { path = "b.c", exists = true }'
    rule = f'[{{ path = "k", exists = true }}, {{ any = [{either}] }}]'
    held: list[dict[str, Any]] = [{"a": ["x"]}, {"b": {"c": None}}, {"a": [], "b": {"c": 1}}]
    others: list[dict[str, Any]] = [{}, {"a": []}, {"b": {}}, {"b": 1}]
    for value in held:
        assert matches(rule, {"k": 1, **value})
        assert not matches(rule, value)
    for value in others:
        assert not matches(rule, {"k": 1, **value})


def test_one_of_several_rules_in_words() -> None:
    rule = '[{ any = [{ path = "a", equals = "x" }, { path = "b", absent = true }] }]'
    (one,) = compile_profile(toml(detect=rule), "made-up.toml").detect
    assert one.words == "member a equal to 'x' or no member b"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{ any = [] }", "any must be an array that is not empty"),
        ('{ any = [{ path = "a", exists = true }], path = "a" }', "path must be left out"),
        ('{ any = [{ path = "a" }] }', r"any\[0\]\.exists must be present"),
        (
            '{ path = "a", is = "list" }',
            "is must be one of null, text, object, integer, key, name, filled",
        ),
    ],
)
def test_rules_that_are_wrong(rule: str, words: str) -> None:
    with pytest.raises(ValueError, match=rf"made-up\.toml: member detect\[0\]\.{words}"):
        compile_profile(toml(detect=f"[{rule}]"), "made-up.toml")
