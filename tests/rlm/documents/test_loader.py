from __future__ import annotations

import gzip
import io
import os
import socket
from pathlib import Path

import pytest
from document_tree import names_of, put, skipped_of, text_of

from rlm.documents import Loaded, PathSource, StreamSource, TextSource, load, sources_from_arguments
from rlm.errors import DocumentError
from rlm.runs.notes import warnings_of


def reasons(loaded: Loaded, top: Path) -> dict[str, str]:
    return dict(skipped_of(loaded))


def failure(sources: list, folder: Path) -> str:
    """Return the message of a load that fails. It is one line, and no file is left."""
    with pytest.raises(DocumentError) as caught:
        load(sources, folder)
    assert not folder.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_string_a_file_and_a_stream_in_their_order(tmp_path: Path, tree: Path) -> None:
    put(tree, notes_dot_md="# Notes\r\nnaïve")
    loaded = load(
        [
            "plain",
            b"bytes \xe4\xb8\x96",
            TextSource("row", '{"a": 1}', "jsonl"),
            tree / "notes.md",
            StreamSource("stdin", io.BytesIO(b"piped")),
        ],
        tmp_path / "c",
    )
    assert text_of(loaded) == 'plain\nbytes 世\n{"a": 1}\n# Notes\r\nnaïve\npiped'
    assert [(d.name, d.kind) for d in loaded.context.documents] == [
        ("text", "text"),
        ("text (2)", "text"),
        ("row", "jsonl"),
        ("notes.md", "markdown"),
        ("stdin", "text"),
    ]
    assert (loaded.problems, loaded.replaced) == ((), 0)


def test_no_sources_make_an_empty_context(tmp_path: Path) -> None:
    assert load([], tmp_path / "c").context.chars == 0


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path, tree: Path) -> None:
    put(tree, b_dot_txt="b", a__z_dot_py="z", a__b__c_dot_csv="c", c_dot_txt="c", B="B")
    loaded = load([tree], tmp_path / "c")
    assert names_of(loaded) == ["B", "a/b/c.csv", "a/z.py", "b.txt", "c.txt"]
    assert [document.kind for document in loaded.context.documents] == ["text", "csv", "code", "text", "text"]


def test_what_is_excluded_is_left_out_whatever_a_gitignore_says(tmp_path: Path, tree: Path) -> None:
    put(
        tree,
        _dot_gitignore="!keep.log\n",
        keep_dot_log="no",
        a__b_dot_py="no",
        c__a__d_dot_py="yes",
        e_dot_py="yes",
    )
    loaded = load([PathSource(tree, exclude=("*.log", "/a/", ".gitignore"))], tmp_path / "c")
    assert names_of(loaded) == ["c/a/d.py", "e.py"]


def test_gitignore_is_honoured_nested_ones_too(tmp_path: Path, tree: Path) -> None:
    put(
        tree,
        _dot_gitignore="*.log\n/build/\n!keep.log\n# note\n",
        _dot_git__config="secret",
        sub___dot_git="gitdir: elsewhere",
        a_dot_log="no",
        keep_dot_log="yes",
        build__out_dot_txt="no",
        sub__build__out_dot_txt="yes",
        sub___dot_gitignore="*.txt\n!b.log\n!build/out.txt\n",
        sub__a_dot_txt="no",
        sub__a_dot_log="no",
        sub__b_dot_log="yes",
        sub__c_dot_md="yes",
    )
    loaded = load([tree], tmp_path / "c")
    assert names_of(loaded) == [
        ".gitignore",
        "keep.log",
        "sub/.gitignore",
        "sub/b.log",
        "sub/build/out.txt",
        "sub/c.md",
    ]


def test_what_a_folder_holds_besides_text_is_skipped_and_listed(tmp_path: Path, tree: Path) -> None:
    put(
        tree,
        a_dot_txt="text",
        image_dot_png=b"\x89PNG\r\n\x1a\n\0\0",
        noise=bytes(range(1, 256)) * 9,
        empty="",
    )
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "socket"))
        loaded = load([tree], tmp_path / "c")
    assert names_of(loaded) == ["a.txt"]
    assert reasons(loaded, tree) == {
        "image.png": "binary (a picture)",
        "noise": "binary",
        "empty": "empty",
        "pipe": "not a regular file",
        "socket": "not a regular file",
    }


def test_links_are_safe(tmp_path: Path, tree: Path) -> None:
    put(tree, a_dot_txt="text", sub__b_dot_txt="more")
    put(tmp_path, outside_dot_txt="secret")
    (tree / "loop").symlink_to(tree)
    (tree / "self").symlink_to(tree / "self")
    (tree / "gone").symlink_to(tree / "nowhere")
    (tree / "out").symlink_to(tmp_path / "outside.txt")
    (tree / "z").symlink_to(tree / "a.txt")
    loaded = load([tree], tmp_path / "c")
    assert names_of(loaded) == ["a.txt", "sub/b.txt"]
    assert reasons(loaded, tree) == {
        "gone": "a broken link",
        "loop": "a link to a folder",
        "out": "a link that leads out of the folder",
        "self": "a broken link",
    }


def test_a_file_under_several_names_in_a_folder_is_read_once_without_a_notice(
    tmp_path: Path, tree: Path
) -> None:
    """No text of the folder is missing, so a notice of skipped files would only confuse."""
    put(tree, python3_dot_11="text", sub__b="more")
    (tree / "python3").symlink_to("python3.11")
    (tree / "sub" / "c").symlink_to("b")
    loaded = load([tree], tmp_path / "c")
    assert (names_of(loaded), loaded.problems) == (["python3", "sub/b"], ())


def test_a_folder_given_twice_is_reported_once(tmp_path: Path, tree: Path) -> None:
    put(tree, a="text", b="more", c=b"\0")
    loaded = load([tree, tree], tmp_path / "c")
    assert names_of(loaded) == ["tree/a", "tree/b"]
    assert skipped_of(loaded) == [("tree/c", "binary")]


def test_names_are_the_shortest_paths_that_differ(tmp_path: Path) -> None:
    one, two = tmp_path / "x" / "docs", tmp_path / "y" / "docs"
    put(one, a_dot_txt="1", b_dot_txt="2")
    put(two, a_dot_txt="3")
    loaded = load([one, two, one / "a.txt", TextSource("x/docs/b.txt", "4")], tmp_path / "c")
    assert names_of(loaded) == ["x/docs/a.txt", "x/docs/b.txt", "y/docs/a.txt", "x/docs/b.txt (2)"]
    assert skipped_of(loaded) == [("a.txt", "given twice")]
    files = load([one / "a.txt", two / "a.txt", one / "b.txt"], tmp_path / "d")
    assert names_of(files) == ["x/docs/a.txt", "y/docs/a.txt", "b.txt"]


def test_what_was_not_read_is_named_as_it_would_be(tmp_path: Path) -> None:
    for folder in ("north", "south"):
        put(tmp_path / folder, **{"scan_dot_pdf": b"%PDF-1.4 broken", "a_dot_txt": "words"})
    loaded = load([tmp_path / "north" / "scan.pdf", tmp_path / "south"], tmp_path / "c")
    assert loaded.unread == ("scan.pdf", "south/scan.pdf")


def test_a_name_with_a_colon_is_named_whole(tmp_path: Path, tree: Path) -> None:
    packed = gzip.compress("".join(f"line {number * 7919} of it\n" for number in range(9_000)).encode())
    put(tree, **{"Re: offer_dot_log_dot_gz": packed[: len(packed) // 2], "a_dot_txt": "words"})
    assert load([tree], tmp_path / "c").unread == ("Re: offer.log.gz (in part)",)


def test_a_name_that_is_not_utf8_is_made_so(tmp_path: Path, tree: Path) -> None:
    (tree / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert names_of(load([tree], tmp_path / "c")) == ["caf\ufffd.txt"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda top: top / "missing.txt", "does not exist: check the path"),
        (
            lambda top: (top / "link").symlink_to(top / "no") or top / "link",
            "is a broken link: check the path",
        ),
        (lambda top: (top / "e").write_text("") or put(top, e="") or top / "e", "is empty: name a file"),
        (lambda top: put(top, b=b"a\0b") or top / "b", "is binary: name a file that holds text"),
        (lambda top: (top / "d").mkdir() or top / "d", "holds no text: it is empty: name a folder"),
        (
            lambda top: put(top, f__a=b"\0", f__b=b"\0", f__c="") or top / "f",
            r"nothing in it could be read (2 binary, 1 empty)",
        ),
        (lambda top: Path("/dev/zero"), "is not a file but a device or socket"),
        (lambda top: StreamSource("stdin", io.BytesIO()), "stdin is empty: pipe a text into it"),
        (lambda top: StreamSource("stdin", io.BytesIO(b"\0\1")), "stdin is binary"),
        (lambda top: "", "text is empty: give a text"),
        (lambda top: b"a\0", "text is binary"),
    ],
)
def test_a_source_that_can_not_be_read_is_one_clear_line(
    tmp_path: Path, tree: Path, make, message: str
) -> None:
    assert message in failure([make(tree)], tmp_path / "c")


def test_empty_files_among_others_are_skipped_but_binary_ones_are_not(tmp_path: Path, tree: Path) -> None:
    put(tree, a="text", b="", c=b"\0")
    loaded = load([tree / "a", tree / "b"], tmp_path / "c")
    assert (names_of(loaded), reasons(loaded, tree)) == (["a"], {"b": "empty"})
    assert "c is binary" in failure([tree / "a", tree / "c"], tmp_path / "d")
    put(tree, b2="")
    assert "nothing to read: skipped 2 empty" in failure([tree / "b", tree / "b2"], tmp_path / "e")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions_are_named(tmp_path: Path, tree: Path) -> None:
    put(tree, a="text", b="text", sub__c="text")
    (tree / "b").chmod(0)
    (tree / "sub").chmod(0)
    try:
        assert "unreadable (Permission denied): check its permissions" in failure(
            [tree / "b"], tmp_path / "c"
        )
        assert f"cannot read {tree / 'sub'}: Permission denied. Check its permissions" in failure(
            [tree / "sub"], tmp_path / "c"
        )
        loaded = load([tree], tmp_path / "c")
        assert reasons(loaded, tree) == {
            "b": "unreadable (Permission denied)",
            "sub": "cannot be read: Permission denied",
        }
    finally:
        (tree / "sub").chmod(0o700)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_fails_in_reading_is_one_clear_line(tmp_path: Path) -> None:
    assert "cannot read /proc/self/mem to its end: " in failure([Path("/proc/self/mem")], tmp_path / "c")


def rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes())


def shorten(path: Path) -> None:
    os.truncate(path, 100)


def grow(path: Path) -> None:
    with path.open("a") as more:
        more.write("more")


@pytest.mark.parametrize("change", [rewrite, shorten, grow])
def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, tree: Path, change) -> None:
    put(tree, log="line\n" * 300_000)
    os.utime(tree / "log", (1, 1))

    def progress(_name: str, _size: int) -> None:
        change(tree / "log")

    with pytest.raises(DocumentError, match="changed while it was read: try again"):
        load([tree / "log"], tmp_path / "c", progress)
    assert not (tmp_path / "c").exists()


def test_arguments_of_a_command_line(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments are files, folders, globs and `-`."""
    put(tree, a_dot_txt="a", b_dot_txt="b", deep__c_dot_txt="c")
    monkeypatch.chdir(tree)
    stdin = io.BytesIO(b"piped")
    assert sources_from_arguments(["deep", "-", "a.txt"], stdin) == (
        PathSource(Path("deep")),
        StreamSource("stdin", stdin),
        PathSource(Path("a.txt")),
    )
    assert sources_from_arguments(["[ab].txt"], stdin) == (
        PathSource(Path("a.txt")),
        PathSource(Path("b.txt")),
    )
    assert sources_from_arguments(["**/c.txt"], stdin) == (PathSource(Path("deep/c.txt")),)
    assert sources_from_arguments([f"{tree}/a*"], stdin) == (PathSource(tree / "a.txt"),)


@pytest.mark.parametrize("name", ["odd[1].txt", "[x]*?.txt", "*", "~nobody.txt", "~"])
def test_a_file_of_that_very_name_wins(tree: Path, monkeypatch, name: str) -> None:
    put(tree, xab_dot_txt="matches", odd1_dot_txt="matches")
    (tree / name).write_text("itself")
    monkeypatch.chdir(tree)
    assert sources_from_arguments([name], io.BytesIO()) == (PathSource(Path(name)),)


def test_a_home_that_the_shell_left_is_found(tree: Path, monkeypatch) -> None:
    put(tree, a_dot_txt="a")
    monkeypatch.setenv("HOME", str(tree))
    assert sources_from_arguments(["~/a.txt"], io.BytesIO()) == (PathSource(tree / "a.txt"),)
    assert sources_from_arguments(["~/*.txt"], io.BytesIO()) == (PathSource(tree / "a.txt"),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt"], "nowhere.txt does not exist: check the path"),
        (["*.nothing"], "no file matches '*.nothing': check the pattern"),
        (["-", "-"], "given twice: give it once"),
        ([""], "an empty path was given"),
        (["~nobody-of-that-name/a.txt"], "~nobody-of-that-name/a.txt does not exist"),
        (["x" * 5000], "does not exist"),
        (["nul\0"], "does not exist"),
    ],
)
def test_arguments_that_mean_nothing(tree: Path, monkeypatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tree)
    with pytest.raises(DocumentError) as caught:
        sources_from_arguments(arguments, io.BytesIO())
    assert message in str(caught.value)


def test_files_that_hold_no_words_give_no_notice(tmp_path: Path, tree: Path) -> None:
    """Empty files, programs, compiled code and fonts lie in every folder of source."""
    put(tree, a_dot_py="x = 1\n", __init___dot_py="", m_dot_pyc=b"\xa7\r\r\n" + bytes(12) + b"\xe3\0\1")
    put(tree, lib_dot_so=b"\x7fELF\2\1\1" + bytes(99), de_dot_mo=b"\xde\x12\x04\x95" + bytes(99))
    loaded = load([tree], tmp_path / "c")
    assert names_of(loaded) == ["a.py"]
    assert {one.kind for one in loaded.problems} == {"nothing"}
    assert (loaded.unread, warnings_of(loaded)) == ((), [])


def test_a_huge_gitignore_is_not_applied_and_named(tmp_path: Path, tree: Path) -> None:
    """A cloned folder may bring one that fills the memory."""
    put(tree, a_dot_log="words", b_dot_txt="more", _dot_gitignore="*.log\n" + "#" * (1 << 20))
    loaded = load([tree], tmp_path / "c")
    assert names_of(loaded) == ["a.log", "b.txt"]
    assert skipped_of(loaded) == [(".gitignore", "a .gitignore of more than 1 MB, not applied")]
