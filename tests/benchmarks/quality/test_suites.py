"""Test the suites: the same items from the same seed, and golds that another reading of the text gives."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from datetime import datetime
from itertools import combinations
from pathlib import Path

import pytest

from benchmarks.quality.suites import SUITES, find_suite, load_items
from benchmarks.quality.suites.generated.labels import SUBJECTS
from rlm.errors import UsageError

GENERATED = [name for name, suite in SUITES.items() if suite.generate]


def items_of(name: str, limit: int = 12, chars: int = 12_000, seed: int = 3):
    return load_items(find_suite(name), limit=limit, seed=seed, chars=chars, data=None)


@pytest.mark.parametrize("name", GENERATED)
def test_items_depend_on_suite_seed_and_length_alone(name) -> None:
    items = items_of(name)
    assert items == items_of(name)
    assert list(items_of(name, limit=5)) == list(items[:5])
    assert {item.digest for item in items}.isdisjoint(item.digest for item in items_of(name, seed=4))
    assert len({item.id for item in items}) == 12
    for item in items:
        assert 11_000 <= item.chars <= 13_500
        assert item.golds
        assert item.question.strip()


def orders_of(text: str) -> list[dict[str, str]]:
    head, *lines = text.splitlines()
    names = head.split(" | ")
    return [dict(zip(names, line.split(" | "), strict=True)) for line in lines]


def test_golds_of_records() -> None:
    for item in items_of("records"):
        orders, question, (gold,) = orders_of(item.texts[0]), item.question, item.golds
        if found := re.search(r"How many orders of the region (\w+) have the state (\w+)", question):
            region, state = found.groups()
            assert int(gold) == sum(one["region"] == region and one["state"] == state for one in orders)
        elif found := re.search(r"sum of the amounts of all orders of the customer (\w+)", question):
            amounts = [
                round(float(one["amount in EUR"]) * 100) for one in orders if one["customer"] == found[1]
            ]
            assert round(float(gold) * 100) == sum(amounts)
        elif found := re.search(r"Which order of (\w+) has the largest", question):
            month = datetime.strptime(found[1], "%B").month
            those = [one for one in orders if int(one["day"][5:7]) == month]
            most = max(float(one["amount in EUR"]) for one in those)
            assert int(gold) == min(int(one["order"]) for one in those if float(one["amount in EUR"]) == most)
        elif found := re.search(r"different days did the customer (\w+) order the goods (\w+)", question):
            who, goods = found.groups()
            days = {one["day"] for one in orders if (one["customer"], one["goods"]) == (who, goods)}
            assert int(gold) == len(days)
        elif found := re.search(r"most orders with the state (\w+)", question):
            counts = Counter(one["customer"] for one in orders if one["state"] == found[1])
            assert counts[gold] == max(counts.values())
        else:
            goods, region = re.search(r"the goods (\w+) were ordered in the region (\w+)", question).groups()
            those = [one for one in orders if (one["goods"], one["region"]) == (goods, region)]
            assert int(gold) == sum(int(one["pieces"]) for one in those)


def messages_of(text: str) -> list[tuple[int, str]]:
    """Return user and subject of each message, read by its words."""
    found = []
    for line in text.splitlines()[1:]:
        user, words = re.fullmatch(r"Date: .* \|\| User: (\d+) \|\| Message: (.*)", line).groups()
        (subject,) = (
            subject
            for subject, templates in SUBJECTS.items()
            if any(
                re.fullmatch(re.escape(one).replace(r"\{x\}", "[A-Z][A-Za-z ]+"), words) for one in templates
            )
        )
        found.append((int(user), subject))
    return found


def test_golds_of_labels() -> None:
    for item in items_of("labels", limit=8):
        messages, (gold,) = messages_of(item.texts[0]), item.golds
        counts = Counter(subject for _, subject in messages)
        question = item.question.partition(". ")[2]
        if found := re.match(r"How many messages are about (\w+)", question):
            assert int(gold) == counts[found[1]]
        elif found := re.match(r"How many messages of user (\d+) are about (\w+)", question):
            assert int(gold) == messages.count((int(found[1]), found[2]))
        elif found := re.match(r"Which subject do the (\w+) messages", question):
            assert counts[gold] == (max if found[1] == "most" else min)(counts.values())
        else:
            one, other = re.match(
                r"Is (\w+) the subject of messages more often than (\w+)", question
            ).groups()
            words = {1: "more often", 0: "equally often", -1: "less often"}
            assert gold == words[(counts[one] > counts[other]) - (counts[one] < counts[other])]


def test_golds_of_pairs() -> None:
    for item in items_of("pairs", limit=6):
        counts: dict[int, Counter[str]] = defaultdict(Counter)
        for user, subject in messages_of(item.texts[0]):
            counts[user][subject] += 1
        users = sorted(counts)
        if found := re.search(r"both users have at least (\d+) messages about (\w+)", item.question):
            need, subject = int(found[1]), found[2]
            pairs = [p for p in combinations(users, 2) if all(counts[one][subject] >= need for one in p)]
        elif found := re.search(r"exactly as many messages about (\w+)", item.question):
            pairs = [(a, b) for a, b in combinations(users, 2) if counts[a][found[1]] == counts[b][found[1]]]
        else:
            words = (
                r"at least (\d+) messages about (\w+), and the other one at least (\d+) messages about (\w+)"
            )
            need, first, other, second = re.search(words, item.question).groups()
            pairs = [
                (a, b)
                for a, b in combinations(users, 2)
                if (counts[a][first] >= int(need) and counts[b][second] >= int(other))
                or (counts[b][first] >= int(need) and counts[a][second] >= int(other))
            ]
        assert item.golds == tuple(f"({a}, {b})" for a, b in pairs)


@pytest.mark.parametrize("name", ["needle", "multi-key"])
def test_golds_of_needles(name) -> None:
    for item in items_of(name, limit=6):
        codes = dict(re.findall(r"The access code of the ([\w ]+) is (\d{7})\.", item.texts[0]))
        assert len(codes) == (1 if name == "needle" else 48)
        asked = re.findall(r"the (\w+ \w+)(?=[?,.])", item.question.partition("Answer with")[0])
        assert [codes[place] for place in asked] == list(item.golds)


def test_golds_of_chats() -> None:
    for item in items_of("chats", limit=8):
        stated: dict[str, list[tuple[datetime, str, str]]] = defaultdict(list)
        authors: Counter[str] = Counter()
        for line in item.texts[0].splitlines():
            time, author, words = re.fullmatch(r"\[(.*?)\] (\w+): (.*)", line).groups()
            found = re.search(r"the (visit to [\w ]+?) (?:moves to|on) (\w+day)\.", words)
            if found:
                stated[found[1]].append((datetime.fromisoformat(time), author, found[2]))
                authors[author] += 1
        (gold,), question = item.golds, item.question
        plan = next((one for one in stated if one in question), "")
        if "after all changes" in question:
            assert gold == stated[plan][-1][2]
        elif found := re.search(r"planned on (\S+) at (\S+)\?", question):
            until = datetime.fromisoformat(f"{found[1]} {found[2]}")
            assert gold == [day for time, _, day in stated[plan] if time <= until][-1]
        elif found := re.match(r"How many messages did (\w+) write", question):
            assert int(gold) == authors[found[1]]
        else:
            assert gold == stated[plan][0][1]


def test_golds_of_boards() -> None:
    for item in items_of("boards", limit=8):
        issues = []
        for block in re.split(r"\n(?=#\d)", item.texts[0]):
            head = re.search(r"#(\d+) .*\nopened by (\w+) on (\S+) \| label: (\w+) \| part: (\w+)", block)
            closed = ""
            for who, did in re.findall(r"^\S+ (\w+) (closed|reopened) this issue\.$", block, re.MULTILINE):
                closed = who if did == "closed" else ""
            issues.append((int(head[1]), head[2], head[3], head[4], head[5], closed))
        (gold,), question = item.golds, item.question
        if found := re.match(r"How many issues with the label (\w+) are open", question):
            assert int(gold) == sum(one[3] == found[1] and not one[5] for one in issues)
        elif found := re.match(r"Which open issue of the part (\w+)", question):
            those = [(one[2], one[0]) for one in issues if one[4] == found[1] and not one[5]]
            assert int(gold) == min(those)[1]
        elif found := re.match(r"Who closed issue #(\d+)", question):
            (issue,) = (one for one in issues if one[0] == int(found[1]))
            assert gold == issue[5]
        else:
            counts = Counter(one[1] for one in issues)
            assert counts[gold] == max(counts.values())


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def loaded(name: str, data: Path | None, limit: int = 9):
    return load_items(find_suite(name), limit=limit, seed=1, chars=0, data=data)


def test_oolong_of_files(tmp_path) -> None:
    text = "\n".join(f"Date: a || User: {user} || Instance: x" for user in (7, 9, 4))
    labels = iter(("spam", "spam", "ham"))
    labelled = "\n".join(f"{line} || Label: {next(labels)}" for line in text.splitlines())
    row = {
        "question": "How many?",
        "context_window_text": text,
        "context_window_text_with_labels": labelled,
        "answer": "[2]",
        "answer_type": "ANSWER_TYPE.NUMERIC",
        "task_group": "counting",
    }
    label = {**row, "question": "Which?", "answer": "['spam']", "answer_type": "ANSWER_TYPE.LABEL"}
    data = write(tmp_path / "synth.jsonl", row, label)
    found = {item.question: item for item in loaded("oolong-synth", data)}
    assert (found["How many?"].golds, found["How many?"].rule) == (("2",), "near")
    assert (found["Which?"].golds, found["Which?"].rule) == (("spam",), "exact")
    (pairs,) = loaded("oolong-pairs", write(tmp_path / "pairs.jsonl", row))
    assert pairs.golds == ("(7, 9)",)
    assert "Label" not in pairs.texts[0]
    del row["context_window_text_with_labels"]
    with pytest.raises(UsageError, match="context_window_text_with_labels"):
        loaded("oolong-pairs", write(tmp_path / "bare.jsonl", row))


def test_oolong_real_of_files(tmp_path) -> None:
    rows = [
        {"question": q, "context_window_text": "a b", "answer": answer, "question_type": "t"}
        for q, answer in (("count", "12"), ("list", "Fire Bolt, Shield"), ("name", "Bolt"))
    ]
    found = {item.question: item for item in loaded("oolong-real", write(tmp_path / "real.jsonl", *rows))}
    assert [found[q].rule for q in ("count", "list", "name")] == ["near", "share", "exact"]
    assert found["list"].golds == ("Fire Bolt", "Shield")


def test_longbench_of_files(tmp_path) -> None:
    row = {"question": "Which?", "context": "A long text.", "answer": "C", "length": "short"}
    row |= {f"choice_{letter}": f"choice {letter}" for letter in "ABCD"}
    (item,) = loaded("longbench-v2", write(tmp_path / "one.jsonl", row))
    assert (item.golds, item.rule, item.texts) == (("C",), "letter", ("A long text.",))
    assert "B. choice B" in item.question
    with pytest.raises(UsageError, match="line 1 has the answer 'E'"):
        loaded("longbench-v2", write(tmp_path / "bad.jsonl", {**row, "answer": "E"}))


def test_browsecomp_of_files(tmp_path) -> None:
    documents = [{"docid": str(number), "text": f"text {number}"} for number in range(6)]
    row = {
        "query": "Who wrote it?",
        "answer": "Mara",
        "gold_docs": documents[:1],
        "evidence_docs": documents[:2],
        "negative_docs": documents[2:],
    }
    (item,) = loaded("browsecomp-plus", write(tmp_path / "one.jsonl", row))
    assert sorted(item.texts) == [f"text {number}" for number in range(6)]
    assert item.rule == "model"
    assert item == loaded("browsecomp-plus", tmp_path / "one.jsonl")[0]
    encrypted = {**row, "query": "kX0pEyQm8aUlxDoyU2p3ZWxsCg=="}
    with pytest.raises(UsageError, match="encrypted"):
        loaded("browsecomp-plus", write(tmp_path / "two.jsonl", encrypted))


def test_a_sample_of_a_data_set_grows(tmp_path) -> None:
    """A larger limit keeps the items of a smaller one."""
    rows = [
        {"question": f"q{number}", "context_window_text": "a", "answer": "1", "question_type": "t"}
        for number in range(40)
    ]
    data = write(tmp_path / "real.jsonl", *rows)
    few, many = loaded("oolong-real", data, 5), loaded("oolong-real", data, 20)
    assert list(many[:5]) == list(few)
    assert [item.question for item in few] != [f"q{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{nonsense\n", "line 1 is not JSON"),
        (b"[1]\n", "line 1 is not a JSON object"),
        (b'{"question": "q"}\n', "line 1 has no text in the field"),
    ],
)
def test_other_data_are_refused_by_their_place(tmp_path, content, message) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        loaded("oolong-real", tmp_path / "x.jsonl")


def test_missing_data_say_where_they_are(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"huggingface\.co/datasets/oolongbench/oolong-synth"):
        loaded("oolong-synth", None)
    with pytest.raises(UsageError, match="does not exist"):
        loaded("oolong-synth", tmp_path / "none")
    with pytest.raises(UsageError, match="holds no file"):
        loaded("oolong-synth", tmp_path)
    with pytest.raises(UsageError, match="leave --data out"):
        loaded("records", tmp_path)
    with pytest.raises(UsageError, match="the suites are records, labels"):
        find_suite("nothing")


def test_parquet_is_read(tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    rows = [{"question": "q", "context_window_text": "a", "answer": "1", "question_type": "t"}]
    write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    assert [item.question for item in loaded("oolong-real", tmp_path)] == ["q"]
