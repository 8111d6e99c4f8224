"""Build the site of docs/ into build/site: strict, and without a network. `make site` runs this.

The pages are copied to build/pages first, because they stand beside this folder. Links that leave docs/ lead
to the repository. llms.txt and llms-full.txt are for models that read the documentation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = DOCS / "site" / "mkdocs.yml"
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
__all__ = ["REPOSITORY", "copy_pages", "fetched_resources", "main"]

REPOSITORY = "https://github.com/rlm-kernel/rlm-kernel/blob/main"
_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
_RESOURCE = re.compile(
    r"""(?:<(?:script|img|iframe|source)\b[^>]*?\bsrc=|<link\b[^>]*?\bhref=|<image\b[^>]*?\bhref=|url\(|@import\s+)"""
    r"""["']?((?:https?:)?//[^"')\s>]+)"""
)
_FROM_TOP = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def main() -> int:
    """Copy the pages, and build. Returns MkDocs' exit code."""
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages(PAGES)
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean", "-f", str(CONFIG)]
    code = subprocess.run(command, env=environment, check=False).returncode
    fetched = [] if code else sorted(fetched_resources(SITE))
    for line in fetched:
        sys.stderr.write(f"docs/site: {line}\n")
    return code or bool(fetched)


def copy_pages(pages: Path) -> None:
    """Copy docs/ to the folder `pages`, with the changelog, the guide for contributors, and llms.txt."""
    for source in sorted(DOCS.rglob("*")):
        if source.is_file() and source.parent != CONFIG.parent and "__pycache__" not in source.parts:
            target = pages / source.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix == ".md":
                target.write_text(_on_the_site(source), encoding="utf-8")
            else:
                shutil.copy(source, target)
    shutil.copy(CONFIG.parent / "site.css", pages)
    made = [sys.executable, str(CONFIG.parent / "reference.py"), str(pages / "reference" / "commands.md")]
    subprocess.run(made, check=True)
    for name, on_site in _FROM_TOP.items():
        (pages / on_site).write_text(_on_the_site(ROOT / name), encoding="utf-8")
    (pages / "llms.txt").write_text(llms_txt(pages), encoding="utf-8")
    (pages / "llms-full.txt").write_text("\n\n".join(_texts(pages)), encoding="utf-8")


def fetched_resources(site: Path) -> Iterator[str]:
    """Yield what a page would load from elsewhere: a script, a style, a font or a picture."""
    for page in (*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")):
        for found in set(_RESOURCE.findall(page.read_text(encoding="utf-8"))):
            yield f"{page.relative_to(site)} loads {found} from another host"


def _on_the_site(source: Path) -> str:
    """Return the page with the links of the site: a target outside of docs/ is in the repository."""

    def target(link: re.Match[str]) -> str:
        place = (source.parent / link[2]).resolve()
        if not place.is_relative_to(ROOT):
            return link[0]
        name = place.relative_to(ROOT).as_posix()
        here = _FROM_TOP.get(source.name) if source.parent == ROOT else None
        if name in _FROM_TOP and source.parent in (DOCS, ROOT):
            return f"{link[1]}{_FROM_TOP[name]}{link[3]}"
        if place.is_relative_to(DOCS) and place.parent != CONFIG.parent:
            return f"{link[1]}{place.relative_to(DOCS).as_posix()}{link[3]}" if here else link[0]
        return f"{link[1]}{REPOSITORY}/{name}{link[3]}"

    return _LINK.sub(target, source.read_text(encoding="utf-8"))


def llms_txt(pages: Path) -> str:
    """Return the list of pages for models (https://llmstxt.org): each with its title and first paragraph."""
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for section, names in _sections(config["nav"], pages):
        lines += [f"## {section}", ""]
        lines += [f"- [{_title(pages / name)}]({name}): {_summary(pages / name)}" for name in names]
        lines.append("")
    return "\n".join(lines)


def _sections(nav: list[dict[str, object]], pages: Path) -> Iterator[tuple[str, list[str]]]:
    top = [str(page) for entry in nav for page in entry.values() if isinstance(page, str)]
    yield "Start", top
    listed = set(top)
    for entry in nav:
        for title, content in entry.items():
            if isinstance(content, list):
                names = [str(page) for one in content for page in one.values()]
                listed.update(names)
                yield title, names
    rest = sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md"))
    if more := [name for name in rest if name not in listed]:
        yield "More", more


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else page.stem


def _summary(page: Path) -> str:
    """Return the first sentence of the first paragraph."""
    for paragraph in re.split(r"\n\s*\n", page.read_text(encoding="utf-8")):
        if not paragraph.lstrip().startswith(("#", "<!--", "```", "|", "![", "-", ":::")):
            return _first_sentence(paragraph)
        rest = paragraph.partition("\n")[2]
        if paragraph.startswith("# ") and rest and not rest.startswith(("#", "```", "|", "-")):
            return _first_sentence(rest)
    return ""


def _first_sentence(paragraph: str) -> str:
    """Return it without the targets of its links."""
    words = " ".join(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", paragraph).split())
    return re.split(r"(?<=\.)\s", words)[0]


def _texts(pages: Path) -> Iterator[str]:
    for page in sorted(pages.rglob("*.md")):
        yield f"<!-- {page.relative_to(pages).as_posix()} -->\n\n{page.read_text(encoding='utf-8')}"


if __name__ == "__main__":
    sys.exit(main())
