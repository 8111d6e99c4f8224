"""Test the wheel, installed alone, next to a user's own `prompts.py` and `sandbox/`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rlm import __version__

ROOT = Path(__file__).parents[2]
PARTS_OF_A_BUILD = (
    "rlm",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "docs",
    "tests",
    "examples",
)

APP = """
from pathlib import Path
import prompts, sandbox
from rlm import RLM, Settings
rlm = RLM("extractive", settings=Settings(sandbox={sandbox!r}))
result = rlm.run_sync("What is the code word?", Path("notes.txt"))
print(prompts.MINE, sandbox.MINE, result.answer)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the tree, links at its top included."""
    tree = tmp_path_factory.mktemp("tree")
    for name in PARTS_OF_A_BUILD:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    for name in ("sandbox", "prompts"):
        (tree / name).symlink_to(f"rlm/{name}")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    subprocess.run(build, cwd=tree, check=True)
    return next((tree / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, and what its metadata requires, into an empty environment; return its Python."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    metadata = next(site.glob("rlm_kernel-*.dist-info"))
    for one in requirements(Distribution.at(metadata), frozenset(), set()):
        link_files(one, site)
    return folder / "bin" / "python"


def requirements(one: Distribution, extras: frozenset[str], seen: set[str]) -> Iterator[Distribution]:
    """Yield the distributions that `one` with these extras requires on this machine, each once."""
    for line in one.requires or ():
        requirement = Requirement(line)
        contexts = [{"extra": extra} for extra in (extras or {""})]
        if requirement.marker is not None and not any(map(requirement.marker.evaluate, contexts)):
            continue
        key = str(requirement.name).lower() + str(sorted(requirement.extras))
        if key not in seen:
            seen.add(key)
            found = distribution(requirement.name)
            yield found
            yield from requirements(found, frozenset(requirement.extras), seen)


def link_files(one: Distribution, site: Path) -> None:
    """Put the files of an installed distribution into `site`, by hard links if possible."""
    for file in one.files or ():
        source, target = Path(str(one.locate_file(file))), site / file
        if ".." in file.parts or not source.is_file() or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy(source, target)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a user's folder whose modules have the names that this package once took."""
    (tmp_path / "prompts.py").write_text("MINE = 'my prompts'\n")
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "sandbox" / "__init__.py").write_text("MINE = 'my sandbox'\n")
    (tmp_path / "notes.txt").write_text("The meeting was long.\nThe code word is Zebra-99.\nThen we left.\n")
    return tmp_path


def test_the_wheel_installs_one_package(wheel: Path) -> None:
    """The wheel adds nothing but `rlm` to an environment: all of its files, no tests, nothing compiled."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "rlm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == here
    # Among them texts, schemas, tables of words and the mark of a typed package.
    assert {"rlm/prompts/text/root.md", "rlm/retrieval/function_words.toml", "rlm/py.typed"} <= names
    assert any(name == "rlm/prompts/segments/schema.sql" for name in names)
    assert wheel.stat().st_size < 4_000_000


def test_the_sdist_has_what_a_packager_needs(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "PKG-INFO", "LICENSE", "CHANGELOG.md", "rlm/__init__.py", "tests/conftest.py"}
    assert wanted <= names
    assert not any(
        "__pycache__" in name or name.startswith(("sandbox", "prompts", ".")) for name in names - {""}
    )


def test_the_metadata_is_fit_for_an_index(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    checked = [sys.executable, "-m", "twine", "check", "--strict", wheel, sdist]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    urls = {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])}
    assert urls == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert metadata["Version"] == __version__
    # What an extra requires is in `all`, but for the tools of this repository and what is for clusters.
    required: dict[str, set[str]] = {}
    for line in metadata.get_all("Requires-Dist", []):
        for extra in re.findall(r"extra == ['\"](\w+)['\"]", line):
            required.setdefault(extra, set()).add(Requirement(line).name)
    assert set(metadata.get_all("Provides-Extra", [])) == set(required)
    missing = {name for name, packages in required.items() if not packages <= required["all"]}
    assert missing == {"dev", "docs", "inspect", "ray"}


def test_a_question_is_asked_from_python_next_to_modules_of_these_names(
    python: Path, folder: Path, sandbox_flag: str
) -> None:
    level = sandbox_flag if sandbox_flag == "auto" else int(sandbox_flag)
    (folder / "app.py").write_text(APP.format(sandbox=level))
    done = subprocess.run([python, "app.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("my prompts my sandbox")
    assert "Zebra-99" in done.stdout


@pytest.mark.parametrize("command", [["-m", "rlm"], ["RLM"]], ids=["python -m rlm", "rlm"])
def test_a_question_is_asked_from_the_command_line_there(
    command: list[str], python: Path, folder: Path, sandbox_flag: str
) -> None:
    script = python.with_name("rlm")
    script.write_text(f"#!{python}\nfrom rlm.cli import main\nmain()\n")
    script.chmod(0o755)
    program = [script] if command == ["RLM"] else [python, *command]
    done = subprocess.run(
        [*program, "ask", "What is the code word?", "notes.txt", "--json", "--sandbox", sandbox_flag],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Zebra-99" in json.loads(done.stdout)["answer"]


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed: `uvx` was not tried")
def test_uvx_runs_the_wheel(wheel: Path, folder: Path) -> None:
    """`uvx --from … rlm "question" file`, with what uv's cache holds: no test fetches packages."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    tool = ["uv", "tool", "run", "--offline", "--python", sys.executable, "--from", str(wheel), "rlm"]
    tried = subprocess.run([*tool, "--version"], capture_output=True, text=True, check=False, env=environment)
    if tried.returncode and "the network was disabled" in tried.stderr:
        pytest.skip("uv's cache does not hold the packages: `uvx` was not tried")
    assert tried.stdout.strip() == f"rlm {__version__}", tried.stderr
    asked = [*tool, "What is the code word?", "notes.txt", "-q"]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Zebra-99" in done.stdout
