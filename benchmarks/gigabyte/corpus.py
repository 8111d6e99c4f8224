"""Write a text of any size in English, Chinese, Russian and emoji. It is always the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

NEEDLE = "The vault of Zanzibar opens with the number 7481920."
"""Occurs once, just before the end."""
CHINESE_NEEDLE = "密码藏在琥珀宫殿的第七扇门后面。"
"""Occurs once, in the middle."""
RUSSIAN_NEEDLE = "Ключ лежит под Янтарной лестницей."
"""Occurs once, after three quarters."""

_LINES_A_BLOCK = 60_000
_ENGLISH = (  # noqa: SIM905
    "the of and to in kernel model price contract between clause answer table river "
    "window paper letter seven quiet machine garden because although measured under "
    "before another naïve café “quoted” report "
).split()
_CHINESE = "世界 人工智能 合同 条款 价格 河流 窗户 报告 测量 安静 机器 花园 因为 虽然 之前 七".split()  # noqa: SIM905
_RUSSIAN = "слово договор цена река окно письмо семь тихий машина сад потому отчёт".split()  # noqa: SIM905
_EMOJI = "🙂 👩‍👩‍👧 🇪🇺 👍🏽 é ✅".split()  # noqa: SIM905


def write_corpus(path: Path, size: int) -> int:
    """Write about `size` bytes to `path`. Return the number of bytes written."""
    written = 0
    planted = [(size // 2, CHINESE_NEEDLE), (size * 3 // 4, RUSSIAN_NEEDLE)]
    with path.open("wb") as file:
        for number, block in enumerate(_blocks()):
            if written + len(block) > size:
                break
            written += file.write(f"# Part {number}\n\n".encode() + block)
            while planted and written >= planted[0][0]:
                written += file.write(f"{planted.pop(0)[1]}\n".encode())
        for _, needle in planted:  # a small text ends before their places
            written += file.write(f"{needle}\n".encode())
        written += file.write(f"{NEEDLE}\nThe end.\n".encode())
    return written


def _blocks() -> Iterator[bytes]:
    """Yield eight different blocks of a few megabytes, over and over."""
    chooser = random.Random(20)
    kinds = [_ENGLISH] * 6 + [_CHINESE, _CHINESE, _RUSSIAN, _ENGLISH + _EMOJI]
    made = []
    for _ in range(8):
        lines = []
        for _ in range(_LINES_A_BLOCK):
            words = chooser.choice(kinds)
            text = " ".join(chooser.choices(words, k=chooser.randint(3, 24)))
            lines.append(f"id={chooser.randint(0, 10**9)} {text}.")
        made.append(("\n".join(lines) + "\n\n").encode())
    while True:
        yield from made
