"""rlm.toml, the user's file, and the values in them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from rlm.config_file.loading import FileSettings, load_settings
from rlm.config_file.settings_file import SettingsFile, settings_files
from rlm.errors import ConfigurationError
from rlm.models.base import ModelWindow, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.prompts import CardSettings


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def loaded(*files: Path) -> FileSettings:
    return load_settings([SettingsFile(file, file.read_bytes()) for file in files])


def paths(explicit: Path | None, env: dict[str, str], folder: Path) -> tuple[Path, ...]:
    return tuple(file.path for file in settings_files(explicit, env, folder))


def test_files_are_the_users_then_the_folders_and_config_replaces_the_latter(tmp_path: Path) -> None:
    """The last file wins."""
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    assert paths(None, {"XDG_CONFIG_HOME": str(home)}, here) == ()
    users = written(home / "rlm" / "config.toml", "")
    near = written(here / "rlm.toml", "")
    other = written(tmp_path / "other.toml", "")
    assert paths(None, {"XDG_CONFIG_HOME": str(home)}, here) == (users, near)
    assert paths(other, {"XDG_CONFIG_HOME": str(home)}, here) == (users, other)
    plain = written(tmp_path / ".config" / "rlm" / "config.toml", "")
    assert paths(None, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}, here) == (plain, near)
    with pytest.raises(ConfigurationError, match=r"gone\.toml does not exist"):
        settings_files(tmp_path / "gone.toml", {}, here)


def test_the_last_file_wins_key_by_key(tmp_path: Path) -> None:
    far = written(
        tmp_path / "far.toml",
        'model = "openai:a"\nmax_rounds = 3\n[prompt]\nchat_history_budget = 5000\n[prompt.rlm]\n'
        'model = "x"\n'
        "[prompt.context_priority]\nadrs = 7\n[models.m]\nwindow = 10\n[models.n]\nwindow = 11",
    )
    near = written(
        tmp_path / "near.toml",
        'model = "openai:b"\n[prompt.rlm]\nthreshold_percentage = 50\n[models.m]\nwindow = 20',
    )
    settings = loaded(far, near)
    assert settings.values == {"model": "openai:b", "max_rounds": 3}
    assert settings.card.budget.chat_history == 5_000
    assert (settings.card.summary_model, settings.card.threshold_percentage) == ("x", 50)
    assert settings.card.priority("adrs") == 7
    assert (settings.models["m"].window, settings.models["n"].window) == (20, 11)
    assert loaded().card == CardSettings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = ", "is not TOML"),
        ("[prompt]\nchat_history_budget = -1", "prompt.chat_history_budget is -1: give a whole number"),
        ("[prompt]\nchat_budget = 1", "prompt.chat_budget is no setting"),
        ("[prompt.rlm]\nthreshold_percentage = 0", "prompt.rlm.threshold_percentage is 0"),
        ("[prompt]\nchat_history_budget = 20000", "prompt.total_budget is 27,500"),
        ('[models."a"]\nwindows = 3', 'models."a".windows is no setting'),
        ('[models."a"]\nwindow = 0', 'models."a".window is 0'),
        ('[models."a"]\noutput = true', 'models."a".output is True'),
        ('[models."a"]\ninput_price = -1', 'models."a".input_price is -1'),
        ('[models."a"]\ninput_price = nan\noutput_price = 1', 'models."a".input_price is nan'),
        ('[models."a"]\ninput_price = 1', "half a price"),
        ("models = 3", "models is 3"),
        ("[models]\na = 3", "make it a table"),
    ],
)
def test_an_invalid_value_is_reported_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """An error is one line."""
    file = written(tmp_path / "rlm.toml", text)
    with pytest.raises(ConfigurationError) as caught:
        loaded(file)
    assert str(caught.value).startswith(str(file))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf_8_or_can_not_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rlm.toml"
    file.write_bytes(b"model = '\xff'")
    with pytest.raises(ConfigurationError, match=re.escape(str(file))):
        loaded(file)
    with pytest.raises(ConfigurationError, match="can't be read"):
        settings_files(tmp_path, {"HOME": "/nowhere"}, tmp_path)


def test_facts_of_a_model_override_the_built_in_window() -> None:
    shipped = ModelWindow(context=128_000, output=8_000, known=False)
    assert ModelInfo().apply_to_window(shipped) == shipped
    assert ModelInfo(window=4_000).apply_to_window(shipped) == ModelWindow(4_000, 1_000)
    assert ModelInfo(output=2_000).apply_to_window(shipped) == ModelWindow(128_000, 2_000, known=False)


@pytest.mark.parametrize(
    ("facts", "dollars"),
    [
        ({"input_price": 2.0, "output_price": 10.0}, 2.0 + 1.0),
        ({"input_price": 2.0, "output_price": 10.0, "cached_price": 0.2}, 1.5 + 0.05 + 1.0),
        ({"input_price": 0, "output_price": 0}, 0.0),
        ({}, None),
    ],
)
def test_a_price_is_dollars_for_a_million_tokens(facts: dict[str, Any], dollars: float | None) -> None:
    usage = TokenUsage(input_tokens=1_000_000, cached_tokens=250_000, output_tokens=100_000)
    price = ModelInfo.from_table("models.m", facts).price(usage)
    assert price == (None if dollars is None else pytest.approx(dollars))


def test_only_the_file_of_this_folder_counts(tmp_path: Path) -> None:
    """Neither one of a folder above it, nor another format."""
    here = tmp_path / "repository" / "src"
    here.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    written(tmp_path / "repository" / "rlm.toml", "max_rounds = 3")
    written(here / "pyproject.toml", "[tool.rlm]\nmax_rounds = 3")
    assert paths(None, {"HOME": str(tmp_path)}, here) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".".join("a" * 400_000) + " = 1", "is over 64 kB"),
        (".".join("a" * 20_000) + " = 1", "has a line of over 20 dots"),
        ("[" + ".".join("a" * 20_000) + "]", "has a line of over 20 dots"),
        ('x = "\\""\n' + ".".join("a" * 22) + " = 1", "has a line of over 20 dots"),
        ("x = " + '"' * 60_000, "is not TOML"),
    ],
)
def test_a_folder_costs_no_time_by_the_form_of_its_file(tmp_path: Path, text: str, said: str) -> None:
    """tomllib takes minutes for a key of a hundred thousand parts."""
    written(tmp_path / "rlm.toml", text)
    begun = time.monotonic()
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_settings(settings_files(None, {"HOME": str(tmp_path)}, tmp_path))
    assert time.monotonic() - begun < 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f'strategy = "rlm"  # {"." * 30}\n',
        f"""[models."openai:{"a." * 30}"]\nwindow = 3""",
        f'[prompt]\npromise = """\n{"." * 99}"""',
    ],
)
def test_dots_in_a_text_are_no_parts_of_a_key(tmp_path: Path, text: str) -> None:
    written(tmp_path / "rlm.toml", text)
    load_settings(settings_files(None, {"HOME": str(tmp_path)}, tmp_path))


def test_a_setting_is_spelled_with_dashes_too(tmp_path: Path) -> None:
    file = written(tmp_path / "rlm.toml", "max-rounds = 3\n")
    assert loaded(file).values == {"max_rounds": 3}
    with pytest.raises(ConfigurationError, match="max_rounds is set twice, with - and with _"):
        loaded(written(file, "max-rounds = 3\nmax_rounds = 4\n"))
