"""Rebuild the tables from the artifacts alone. Needs no data set, no model and no network.

    python -m benchmarks.readers.report [--write]

`--write` puts the tables into README.md, between its marks.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.readers.items import ARMS, RESULTS

__all__ = ["main", "share", "table", "tables", "wilson", "with_tables"]

README = Path(__file__).with_name("README.md")
_BEGIN, _END = "<!-- tables: written by report.py -->\n", "<!-- end of tables -->\n"
_Z = 1.959964
_KINDS = ("ask", "summarize", "research")

Scores = Mapping[str, Mapping[str, Mapping[str, Any]]]


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, after Wilson; (0, 1) for no observation."""
    if not total:
        return 0.0, 1.0
    share, square = hits / total, _Z * _Z
    centre = (share + square / (2 * total)) / (1 + square / total)
    half = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    return max(0.0, centre - half), min(1.0, centre + half)


def share(hits: int, total: int) -> str:
    if not total:
        return "–"
    low, high = wilson(hits, total)
    return f"{hits} of {total}: {100 * hits / total:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _preferences(verdicts: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for kind in (*_KINDS, "all"):
        for arm in ARMS[1:]:
            own = [one for one in verdicts if one["arm"] == arm and kind in (one["kind"], "all")]
            if own:
                won = sum(one["prefers"] == "product" for one in own)
                equal = sum(one["prefers"] == "equal" for one in own)
                counts = (str(won), str(equal), str(len(own) - won - equal))
                rows.append((f"{kind}, against {arm}", *counts, share(won + equal, len(own))))
    return table(("pairs", "preferred", "equal", "not preferred", "preferred or equal (95 %)"), rows)


def _arms(scores: Scores) -> str:
    rows = []
    for arm in ARMS:
        own = [one[arm] for one in scores.values() if arm in one and not _is_skipped(one[arm])]
        if not own:
            continue
        exact = [one for one in own if one["right"] is not None]
        # The arms are compared on the items that both answered: map-reduce skips some.
        shared = [
            (one["product"]["right"], one[arm]["right"])
            for one in scores.values()
            if "product" in one and arm in one and None not in (one["product"]["right"], one[arm]["right"])
        ]
        tokens = [one["input_tokens"] + one["output_tokens"] for one in own]
        rows.append(
            (
                arm,
                str(len(own)),
                share(sum(one["right"] for one in exact), len(exact)),
                f"{sum(theirs for _, theirs in shared)} to {sum(ours for ours, _ in shared)}",
                f"{median(tokens):,.0f}",
                f"{mean(one['calls'] for one in own):.1f}",
                f"{median(one['seconds'] for one in own):,.0f}",
            )
        )
    head = ("arm", "items", "exactly right (95 %)", "right, to product's", "tokens (median)", "calls (mean)")
    return table((*head, "seconds (median)"), rows)


def _product(scores: Scores) -> str:
    own = [one["product"] for one in scores.values() if "product" in one]
    claims = [one["support"] for one in own if one["support"]]
    supported = sum(one.get("supported", 0) for one in claims)
    checked = supported + sum(one.get("unsupported", 0) for one in claims)
    unchecked = sum(one.get("unchecked", 0) for one in claims)
    found = sum(one["citations"] for one in own)
    lookups = [one for one in own if one["lookup"] and one["right"] is not False]
    spent = [one["input_tokens"] + one["output_tokens"] for one in lookups]
    firsts = [one["first_try"] for one in own if one["first_try"]]
    written = [one["as_written"] for one in own if one["as_written"]]
    lost = [reason for one in own for reason in one["discarded"]]
    rows = [
        ("citations found in the text", share(sum(one["verified"] for one in own), found)),
        ("checked claims that are supported", share(supported, checked)),
        ("claims that no check decided", str(unchecked)),
        ("tokens of a look-up (median, most)", f"{median(spent):,.0f}, {max(spent):,}" if spent else "–"),
        (
            "rounds of a look-up (mean)",
            f"{mean(one['rounds'] for one in lookups):.1f}" if lookups else "–",
        ),
        (
            "summaries within their length at the first try",
            share(sum(one["kept"] for one in firsts), len(firsts)),
        ),
        (
            "lines of summaries that stand as a model first wrote them",
            share(sum(one[0] for one in written), sum(one[1] for one in written)),
        ),
        ("paid texts thrown away", str(len(lost))),
        ("replies of `not found` after which a run looked again", str(sum(one["declined"] for one in own))),
        ("items without an answer", str(sum(one["status"] == "no answer" for one in own))),
    ]
    return table(("the product", ""), rows)


def _is_skipped(figures: Mapping[str, Any]) -> bool:
    return str(figures["status"]).startswith("skipped")


def tables(results: Path) -> str:
    """Return the tables as Markdown. The same artifacts give the same bytes."""
    file = results / "scores.json"
    scores: Scores = json.loads(file.read_text("utf-8")) if file.exists() else {}
    files = sorted((results / "judge").glob("*.json"))
    verdicts = [json.loads(one.read_text("utf-8")) for one in files]
    if not scores:
        return "No results yet.\n"
    return "\n".join((_preferences(verdicts), _arms(scores), _product(scores)))


def with_tables(page: str, found: str) -> str:
    """Return the page with the tables between its marks."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{found}{_END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    given = parser.parse_args()
    found = tables(given.results)
    if given.write:
        README.write_text(with_tables(README.read_text("utf-8"), found), "utf-8")
    else:
        print(found, end="")


if __name__ == "__main__":
    main()
