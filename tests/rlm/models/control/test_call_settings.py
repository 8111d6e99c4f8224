"""Test what users may ask of each call: keys, values, errors, and what a journal keeps of them."""

from __future__ import annotations

import pytest

from rlm.errors import ConfigurationError
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import ModelInfo


def test_pairs_of_the_command_line() -> None:
    pairs = [
        "effort=low",
        "output=16000",
        "thinking=4096",
        "temperature=0.2",
        "seed=7",
        "body.top_p=0.9",
        'body={"stop": ["END"]}',
        "headers.X-Team=law=1",
        "effort=high",
    ]
    assert CallSettings.from_pairs("--option", pairs) == CallSettings(
        output=16_000,
        effort="high",
        thinking=4_096,
        temperature=0.2,
        seed=7,
        body={"top_p": 0.9, "stop": ["END"]},
        headers={"X-Team": "law=1"},
    )


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (
            "effrot=high",
            r"--option: 'effrot' is no setting, did you mean effort\?: use one of output, effort, ",
        ),
        ("effort=hihg", r"--option effort is 'hihg', did you mean high\?: use one of none, minimal, low"),
        ("effort", r"--option 'effort' is not KEY=VALUE: write --option effort=high"),
        ("output=0", r"--option output is 0: give a whole number of at least 1"),
        ("output=1e3", r"--option output is 1000.0: give a whole number"),
        ("thinking=-1", r"--option thinking is -1: give a whole number of at least 0"),
        ("temperature=hot", r"--option temperature is 'hot': give a number from 0 to 2"),
        ("temperature=NaN", r"--option temperature is nan: give a number from 0 to 2"),
        ("seed=true", r"--option seed is True: give a whole number"),
        ("api=chats", r"--option api is 'chats', did you mean chat\?: use one of chat, responses"),
        ("body=3", r"--option body is '3': give a JSON object, or one value as body.top_p=0.9"),
        ("body.model=x", r"--option body.model is set by rlm itself: leave it out"),
        ("body.max_tokens=5", r"--option body.max_tokens is set by rlm itself: use output"),
        ("headers.Host=x", r"--option headers.Host can't be set: check the header's name"),
        (
            "headers.X-Key=a\nb",
            r"--option headers.X-Key is no header's value: give a text on one line, in ASCII$",
        ),
        ("effort.x=1", r"'effort.x' is no setting"),
    ],
)
def test_errors_name_the_key_and_the_remedy(pair: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CallSettings.from_pairs("--option", [pair])


def test_an_effort_and_a_number_that_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="thinking is 5, and effort is none: leave one out"):
        CallSettings(effort="none", thinking=5)


def test_later_settings_win_and_tables_are_merged() -> None:
    table = CallSettings(thinking=9_000, temperature=1.0, body={"a": 1, "b": 1})
    option = CallSettings(effort="low", body={"b": 2}, headers={"X-A": "1"})
    assert option.over(table) == CallSettings(
        effort="low", temperature=1.0, body={"a": 1, "b": 2}, headers={"X-A": "1"}
    )
    assert CallSettings().over(table) == table


def test_a_journal_keeps_no_value_of_a_header() -> None:
    calls = CallSettings(effort="high", temperature=0.0, body={"top_p": 1}, headers={"X-Key": "s"})
    stored = calls.to_json()
    assert "'s'" not in repr(calls)
    assert stored == {"effort": "high", "temperature": 0.0, "body": {"top_p": 1}, "headers": ["X-Key"]}
    restored = CallSettings.from_json(stored)
    assert restored == CallSettings(effort="high", temperature=0.0, body={"top_p": 1})
    assert CallSettings.from_pairs("--option", restored.to_pairs()) == restored
    assert CallSettings().to_json() == {}


def test_the_table_of_a_settings_file() -> None:
    table = {"window": 32_000, "output": 3_000, "effort": "low", "body": {"top_k": 20}}
    facts = ModelInfo.from_table('models."m"', table)
    assert (facts.window, facts.output) == (32_000, 3_000)
    assert facts.calls == CallSettings(output=3_000, effort="low", body={"top_k": 20})
    with pytest.raises(ConfigurationError, match=r'models."m".efort is no setting, did you mean effort\?'):
        ModelInfo.from_table('models."m"', {"efort": "low"})
    with pytest.raises(ConfigurationError, match=r'models."m".temperature is 3: give a number from 0 to 2'):
        ModelInfo.from_table('models."m"', {"temperature": 3})


def test_a_folder_that_is_not_trusted_sets_neither_body_nor_headers_nor_prices() -> None:
    table = {
        "effort": "low",
        "seed": 1,
        "window": 9_000,
        "body": {"store": True},
        "headers": {"X-Forward-To": "evil"},
        "api": "chat",
        "input_price": 0,
    }
    allowed, refused = ModelInfo.split_for_folder({"m": table})
    assert allowed == {"m": {"effort": "low", "seed": 1, "window": 9_000}}
    assert refused == ("api", "body", "headers", "input_price")


def test_a_number_of_thinking_tokens_replaces_no_effort() -> None:
    """What is chosen later wins, in both orders."""
    number, none = CallSettings(thinking=2_000), CallSettings(effort="none")
    assert number.over(none) == number
    assert none.over(number) == none
    assert number.over(CallSettings(effort="high")) == CallSettings(effort="high", thinking=2_000)
