"""The tasks file: every line is checked before anything is spent."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.batch import tasks
from rlm.batch.tasks import BadTask, BatchTask, TasksFile
from rlm.documents import PathSource, TextSource
from rlm.errors import UsageError
from rlm.settings import Limits

GOOD = {"id": "a", "task": "Who?", "context": [{"text": "Anna."}]}


def line(**changes: object) -> bytes:
    return json.dumps({key: value for key, value in {**GOOD, **changes}.items() if value is not ...}).encode()


def written(folder: Path, *lines: bytes) -> Path:
    path = folder / "tasks.jsonl"
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    return path


def test_an_id_is_made_of_the_content_if_a_line_has_none() -> None:
    """The same line has the same id, so that a batch can be resumed."""
    first, other = BatchTask.parse(line(id=...)), BatchTask.parse(line(id=..., task="Whom?"))
    assert re.fullmatch("task-[0-9a-f]{12}", str(first.id))
    assert first == BatchTask.parse(line(id=...))
    assert first.id != other.id


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"{", "is not JSON"),
        (b"[1]", '$ is no task: give {"id": …, "task": …'),
        (line(id=True), "$.id is no id"),
        (line(task=...), "$.task is missing"),
        (line(task=3), "$.task is 3: give a text"),
        (line(context=...), "$.context is missing or empty"),
        (line(context=[1]), '$.context[0] is no source: give a path or {"text": …}'),
        (line(context=[{"txt": "a"}]), "$.context[0].txt is unknown: use text, name"),
        (line(context=["-"]), "$.context[0] is '-': name a file: a batch does not read stdin"),
        (line(question="?"), "$.question is unknown: use id, task,"),
        (line(limits={"dollars": 1}), "there is no limit 'dollars'"),
        (line(limits={"rounds": 0}), "limits.max_rounds is 0"),
        (line(schema="int"), "$.schema is 'int': give an object"),
        (line(schema={"type": "nonsense"}), "schema:"),
    ],
)
def test_an_invalid_line_is_reported_in_one_line(given: bytes, message: str) -> None:
    with pytest.raises(BadTask) as raised:
        BatchTask.parse(given)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "task", "context", "limits", "schema", "text"]), inner, max_size=5
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_line_is_a_task_or_a_bad_line(value: object) -> None:
    try:
        task = BatchTask.parse(json.dumps(value).encode())
    except BadTask:
        return
    assert task.task.strip()
    assert task.context


def test_a_task_gives_its_sources_and_its_limits(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    context = [str(tmp_path / "a.txt"), {"text": "b", "name": "B"}, {"text": "c"}]
    task = BatchTask.parse(line(context=context, limits={"rounds": 3}))
    assert task.sources() == (
        PathSource(tmp_path / "a.txt"),
        TextSource("B", "b"),
        TextSource("text 3", "c"),
    )
    assert task.under(Limits(max_cost=2.0)) == Limits(max_cost=2.0, max_rounds=3)


def test_a_task_is_identified_by_its_content(tmp_path: Path) -> None:
    same = BatchTask.parse(b'{"context": [{"text": "Anna."}], "task": "Who?", "id": "a", "limits": null}')
    assert BatchTask.parse(line()).digest == same.digest
    assert BatchTask.parse(line(task="Whom?")).digest != same.digest


def test_a_line_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_LINE", 1_000)
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(line() + b"\n" + line(task="x" * 1_000) + b"\n")
    with pytest.raises(UsageError, match=r"line 2 .* put its text into a file"), TasksFile.open(file):
        pass


def test_a_context_may_be_one_path_or_text_by_itself() -> None:
    assert BatchTask.parse(line(context={"text": "x"})).sources() == (TextSource("text 1", "x"),)
    assert BatchTask.parse(line(context={"text": "x", "name": None})).sources()[0].name == "text 1"


def test_bad_lines_are_refused_with_their_numbers_before_anything_is_run(tmp_path: Path) -> None:
    path = written(tmp_path, line(), b"{", line(id="b", context=["missing.txt"]), line(), line(id="c", x=1))
    with pytest.raises(UsageError) as raised, TasksFile.open(path):
        pass
    message = str(raised.value)
    assert "line 2 is not JSON" in message
    assert "line 3 missing.txt does not exist" in message
    assert "line 4 has the id of line 1 ('a')" in message
    assert "and 1 more" in message
    assert "--skip-bad" in message


def test_skipping_bad_lines_keeps_the_tasks_and_reports_the_lines(tmp_path: Path) -> None:
    path = written(tmp_path, line(), b"", b"{", line(id="b", context=["missing.txt"]), line(), line(id=7))
    with TasksFile.open(path, skip_bad=True) as file:
        assert [(id_, number) for id_, (number, _) in file.tasks.items()] == [("a", 1), ("7", 6)]
        assert [bad.id for bad in file.bad] == ["line 3", "b", "line 5"]
        assert str(file.bad[1]).startswith("line 4 missing.txt does not exist")
        assert [task.id for task in file] == ["a", 7]


def test_a_file_that_is_empty_missing_or_changed_meanwhile_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tasks\.jsonl has no task"), TasksFile.open(written(tmp_path)):
        pass
    with (
        pytest.raises(UsageError, match=r"cannot read .*nowhere: .*check"),
        TasksFile.open(tmp_path / "nowhere"),
    ):
        pass
    path = written(tmp_path, line())
    with TasksFile.open(path) as file:
        path.write_bytes(line(task="Why?") + b"\n")
        with pytest.raises(UsageError, match="changed during the batch"):
            list(file)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\n\n  \n"])
@pytest.mark.parametrize("begins", [b"", b"\xef\xbb\xbf"])
def test_a_file_may_have_a_byte_order_mark_blank_lines_and_the_line_ends_of_windows(
    tmp_path: Path, begins: bytes, ends: bytes
) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(begins + ends.join(line(id=n) for n in range(3)))
    with TasksFile.open(path) as file:
        assert [task.id for task in file] == [0, 1, 2]
        assert len({task.digest for task in file}) == 3


def test_ids_that_read_alike_are_the_same_id(tmp_path: Path) -> None:
    """A result is found by its id as text."""
    path = written(tmp_path, line(id=7), line(id="7"))
    with pytest.raises(UsageError, match="line 2 has the id of line 1"), TasksFile.open(path):
        pass
