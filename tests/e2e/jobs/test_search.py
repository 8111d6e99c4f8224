"""Test `rlm search`: ranked passages and regex hits from the command line, without a model."""

from __future__ import annotations

import os
import signal

import pytest

LEASE = """# Lease

## Rent

The tenant pays the rent monthly.

## Notice

Either party ends the lease with a notice period of three months.
"""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "texts"
    made.mkdir()
    (made / "lease.md").write_text(LEASE)
    (made / "log.txt").write_text("ok\nERR_42 at noon\nok\nERR_7 at night\nERR_42 again\n")
    return made


def test_packs_are_shown_with_where_they_stand(rlm, folder) -> None:
    ran = rlm("search", "ending the lease: which notice period?", str(folder))
    assert ran.code == 0
    assert "1. lease.md:1  Lease" in ran.stdout
    assert "three months" in ran.stdout
    assert ran.stderr == ""


def test_packs_as_json(rlm, folder) -> None:
    ran = rlm("search", "who pays rent", str(folder), "--json", "--limit", "1")
    (pack,) = ran.json["packs"]
    assert pack["document"] == "lease.md"
    assert pack["line"] == 1
    assert pack["heading_path"] == ["Lease", "Rent"]
    words = [LEASE[start - pack["start"] : end - pack["start"]] for start, end in pack["hits"]]
    assert words == ["Rent", "pays", "rent"]
    assert {"pack_id", "doc_id", "score", "order", "start", "end", "text", "page"} <= set(pack)


def test_a_word_of_most_passages_is_found_in_all(rlm, tmp_path) -> None:
    """Such a word weighs next to nothing in BM25, where it is not below better words."""
    for name in ("north", "south", "east"):
        text = f"The {name}ern yard has a crane." + " It lifts." * len(name)
        (tmp_path / f"{name}.md").write_text(text)
    ran = rlm("search", "crane", str(tmp_path), "--json")
    assert {pack["document"] for pack in ran.json["packs"]} == {"north.md", "south.md", "east.md"}
    ran = rlm("search", "southern crane", str(tmp_path), "--json")
    assert [pack["document"] for pack in ran.json["packs"]] == ["south.md"]


@pytest.mark.parametrize("expand", ["section", "neighbors"])
def test_packs_can_be_made_wider(rlm, folder, expand) -> None:
    ran = rlm("search", "notice", str(folder), "--expand", expand)
    assert (ran.code, "three months" in ran.stdout) == (0, True)


def test_regex_hits_are_counted_exactly(rlm, folder) -> None:
    ran = rlm("search", "--regex", r"ERR_\d+", str(folder), "--limit", "2")
    assert ran.stdout == "log.txt:2: ERR_42 at noon\nlog.txt:4: ERR_7 at night\n"
    assert "2 of 3" in ran.one_line
    assert "--limit" in ran.one_line
    found = rlm("search", "--regex", r"ERR_\d+", str(folder), "--json").json
    assert (found["total"], [hit["match"] for hit in found["hits"]]) == (3, ["ERR_42", "ERR_7", "ERR_42"])


@pytest.mark.parametrize("options", [[], ["--regex"]])
def test_nothing_found_is_reported_and_is_exit_1(rlm, folder, options) -> None:
    ran = rlm("search", "zeppelin", str(folder), *options)
    assert (ran.code, ran.stdout) == (1, "")
    assert "try other words" in ran.one_line
    assert rlm("search", "zeppelin", str(folder), "--json", *options).code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "."], "the query is empty"),
        (["x", "nowhere.txt"], "nowhere.txt does not exist"),
        (["x", ".", "--limit", "0"], "--limit is 0"),
        (["(", ".", "--regex"], "cannot search for the pattern"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(rlm, tmp_path, arguments, message) -> None:
    (tmp_path / "work" / "a.txt").write_text("x\n")
    ran = rlm("search", *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.one_line


def test_stdin_is_searched(rlm) -> None:
    ran = rlm("search", "harbour", "-", stdin="The ship left the harbour.\n")
    assert "The ship left the harbour." in ran.stdout


def test_a_document_can_not_talk_to_the_terminal(rlm, tmp_path) -> None:
    (tmp_path / "evil.txt").write_text("harbour \x1b]0;owned\x07 \x1b[31mred\n")
    assert "\x1b" not in rlm("search", "harbour", str(tmp_path / "evil.txt")).stdout
    assert "\x1b" not in rlm("search", "-e", "harbour", str(tmp_path / "evil.txt")).stdout


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_indexing_leaves_no_index(rlm_process, tmp_path, environment, signum) -> None:
    """The exit code is 130, with one line."""
    big = tmp_path / "big.txt"
    lines = "".join(
        f"Line {number}: " + " ".join(f"w{number * 31 % 9973 + at}" for at in range(60)) + "\n"
        for number in range(20_000)
    )
    with big.open("w") as file:
        for _ in range(40):
            file.write(lines)
    process = rlm_process("search", "w77", str(big))
    for line in process.stderr:
        if "indexing" in line:
            break
    process.send_signal(signum)
    stdout, stderr = process.communicate(timeout=20)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1] == "rlm: interrupted"
    kept = os.path.join(environment["XDG_CACHE_HOME"], "rlm", "index")
    assert not os.path.exists(kept) or os.listdir(kept) == []
