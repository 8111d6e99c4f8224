"""Estimate tokens by a weighted count of character kinds, without dependencies.

A byte-pair tokenizer spends tokens on few things: a word, a capital inside a word, a rare cluster of
consonants, a group of digits, a sign. Each character is mapped to one letter for its kind (`w` a Latin small
letter, `D` a digit, …), and kinds and short sequences of kinds are counted and weighted. The weights are the
smallest that stay at or above OpenAI's o200k on prose, code, JSON, logs, identifiers, random strings, emoji
and about sixty languages. `docs/prompts.md` has the ratios.

Weights are integers, in hundredths of a token, so that the sum is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

__all__ = ["VERSION", "estimate_each", "estimate_tokens"]

VERSION = "3"

_MAX_WEIGHT = 255  # of a kind in a table of bytes; _differences adds what is above

_WINDOW = 1 << 20  # characters at a time, to bound memory; a border costs at most a few tokens

# (characters, or leading bytes of their UTF-8) -> (kind, hundredths of a token for each character)
_KINDS: tuple[tuple[bytes, bytes, int], ...] = (
    (b"aeiouy", b"v", 0),
    (b"bcdfghjklmnpqrstvwxz", b"c", 0),
    (b"AEIOUY", b"V", 57),  # consecutive capitals cost less, see _weigh
    (b"BCDFGHJKLMNPQRSTVWXZ", b"U", 57),
    (b"0123456789", b"D", 0),  # counted in groups of three, see _weigh
    (b" ", b" ", 0),
    (b"\r\n", b"n", 119),
    (b"\t\v\f", b"t", 60),
    (b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", b"p", 73),
    (bytes(range(0xC2, 0xCA)), b"l", 144),  # Latin letters with marks
    (bytes(range(0xCA, 0xCE)), b"z", 255),  # phonetic letters, combining marks
    (bytes(range(0xCE, 0xD0)), b"g", 34),  # Greek
    (bytes(range(0xD0, 0xD4)), b"y", 37),  # Cyrillic
    (bytes(range(0xD4, 0xD8)), b"h", 38),  # Armenian, Hebrew
    (bytes(range(0xD8, 0xDC)), b"a", 26),  # Arabic
    (bytes(range(0xDC, 0xE0)), b"z", 255),  # Syriac, Thaana, N'Ko
    (b"\xe0", b"i", 53),  # the scripts of India, Thai, Lao
    (b"\xe1", b"o", 200),  # Khmer and others; _BLOCKS names what costs more or less
    (b"\xe2", b"s", 206),  # arrows, mathematics, boxes
    (b"\xe3", b"j", 119),  # kana, CJK punctuation
    (bytes(range(0xE4, 0xEA)), b"H", 102),  # Han
    (b"\xea", b"q", 315),  # Yi, Vai, …
    (bytes(range(0xEB, 0xEE)), b"r", 84),  # Hangul (and lone surrogates)
    (b"\xee\xef", b"f", 310),  # private use, presentation forms
    (bytes(range(0xF0, 0xF8)), b"e", 425),  # ancient scripts, rare Han, private use
)
_CONTROL = (b"k", 110)

# Characters that cost more or less than others with the same first byte: (first byte, second bytes,
# hundredths of a token). A character that vocabularies lack costs up to a token for each of its bytes.
_BLOCKS: tuple[tuple[int, range, int], ...] = (
    (0xE0, range(0xBA, 0xC0), 175),  # Lao, Tibetan
    (0xE1, range(0x83, 0x84), 60),  # Georgian
    (0xE1, range(0x88, 0x8E), 215),  # Ethiopic
    (0xE1, range(0x8E, 0x9C), 310),  # Cherokee, Canadian syllables, runes
    (0xE1, range(0xA0, 0xA3), 310),  # Mongolian
    (0xE1, range(0xBA, 0xBC), 20),  # Vietnamese
    (0xE2, range(0x80, 0x81), 128),  # typographic signs
    (0xE2, range(0x98, 0x9C), 225),  # miscellaneous symbols
    (0xE2, range(0xA0, 0xA4), 315),  # braille
    (0xEA, range(0xB0, 0xC0), 84),  # Hangul
    (0xEF, range(0xB8, 0xB9), 152),  # variation selectors
    (0xEF, range(0xBB, 0xBC), 152),  # the byte order mark
    (0xEF, range(0xBC, 0xBD), 170),  # full-width forms
    (0xEF, range(0xBD, 0xC0), 215),  # half-width kana
    (0xF0, range(0x9D, 0x9E), 315),  # mathematical letters
    (0xF0, range(0x9F, 0xA0), 243),  # emoji
)

# Lines drawn with one sign: vocabularies have long tokens for them.
_RULES = (*(bytes([sign]) * 16 for sign in b"-=*_#.~"), *(sign.encode() * 16 for sign in "─═━—…█"))


def _differences() -> dict[bytes, dict[bytes, int]]:
    """Return, by first byte, what a character that begins with these bytes costs more or less than its kind's
    weight in `_tables`."""
    kinds = {byte: weight for members, _, weight in _KINDS for byte in members}
    table: dict[bytes, dict[bytes, int]] = {}
    for byte, weight in kinds.items():
        if weight > _MAX_WEIGHT:
            table[bytes((byte,))] = {bytes((byte,)): weight - _MAX_WEIGHT}
    for byte, seconds, weight in _BLOCKS:
        leads = table.setdefault(bytes((byte,)), {})
        leads.update({bytes((byte, second)): weight - kinds[byte] for second in seconds})
    return table


def _tables() -> tuple[bytes, bytes]:
    kinds = bytearray(_CONTROL[0] * 256)
    kinds[0] = 0  # its own kind, because it separates the texts of a batch
    weights = bytearray(256)
    weights[0] = weights[_CONTROL[0][0]] = _CONTROL[1]
    for members, kind, weight in _KINDS:
        weights[kind[0]] = min(weight, _MAX_WEIGHT)
        for byte in members:
            kinds[byte] = kind[0]
    return bytes(kinds), bytes(weights)


_DIFFERENCES = _differences()
_KIND_OF, _WEIGHT_OF = _tables()
_WEIGHTLESS = bytes(kind for kind in range(256) if not _WEIGHT_OF[kind])  # kinds without a weight
_WEIGHT_OR_BORDER = b"\0" + _WEIGHT_OF[1:]
_CONTINUATION = bytes(range(0x80, 0xC0))  # every byte of a character but its first
_MERGE = bytes.maketrans(b"vcV", b"wwU")
_LETTERS_ONLY = bytes(ord("w") if kind in b"vcwUVlgyhaioz" else 0x20 for kind in range(256))
_LETTERS_OR_BORDER = b"\0" + _LETTERS_ONLY[1:]
_ENGLISH = 250  # hundredths saved per short English word, at most half the cost of long words
_SHORT = 4096
_MAX_CACHED_CHARS = 2048  # short parts recur in later prompts, so their sizes are cached
_MANY = 16  # number of texts from which joining them pays
_BATCH = 1024  # texts joined by U+0000 and mapped to kinds at once


def _kinds(data: bytes) -> bytes:
    for rule in _RULES:
        if rule in data:
            data = data.replace(rule, rule[: len(rule) // 8])
    kinds = data.translate(_KIND_OF, _CONTINUATION)
    if b"    " in kinds:  # indentation takes a token or two, however deep
        kinds = kinds.replace(b" " * 16, b"  ").replace(b"    ", b"  ")
    return kinds.replace(b"DDD", b"D")  # vocabularies hold groups of three digits


def _weigh(data: bytes, kinds: bytes, weights: bytes, words: bytes, runs: bytes) -> int:
    """Return hundredths of a token.

    `weights` are the weights of the kinds that have one. `words` and `runs` are `kinds` with some kinds
    merged; `runs` has a blank at both ends.
    """
    long = 47 * words.count(b"wwww")
    if long:
        long += 144 * words.count(b"wwwwww")
        # Vocabularies hold long English words whole. Short words show whether a text is English.
        english = data.count(b" the ") + data.count(b" of ") + data.count(b" and ")
        long -= min(_ENGLISH * english, long // 2)
    if b"UU" in words:
        # The same holds for words in capitals. Random capitals form clusters.
        shouted = data.count(b" THE ") + data.count(b" OF ") + data.count(b" OR ")
        long += (
            30 * words.count(b"UUUU")
            - 34 * words.count(b"UU")
            + 64 * kinds.count(b"UU")
            + 12 * kinds.count(b"VV")
            - 65 * kinds.count(b"UVU")
            - min(_ENGLISH * shouted, 60 * words.count(b"UUUU"))
        )
    return (
        sum(weights)
        + long
        + 82 * runs.count(b" w")  # unbroken runs of letters
        + 50 * runs.count(b" w ")  # names of one letter
        + 300 * kinds.count(b"cccc")
        + 295 * kinds.count(b"vvv")
        + 120 * words.count(b"wU")
        + 44 * words.count(b"  ")
        + 105 * words.count(b"D")
        + 78 * words.count(b" D")
    )


def _hundredths(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    kinds = _kinds(data)
    weights = kinds.translate(_WEIGHT_OF, _WEIGHTLESS)
    runs = b" " + kinds.translate(_LETTERS_ONLY) + b" "
    total = _weigh(data, kinds, weights, kinds.translate(_MERGE), runs)
    if not text.isascii():
        for first, leads in _DIFFERENCES.items():
            if first in data:
                total += sum(difference * data.count(lead) for lead, difference in leads.items())
    return total


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of `text`, rounded up. 0 only for "". Accepts any string."""
    if len(text) <= _MAX_CACHED_CHARS:
        return _estimate_cached(text)
    if len(text) <= _WINDOW:
        hundredths = _hundredths(text)
    else:
        hundredths = sum(_hundredths(text[at : at + _WINDOW]) for at in range(0, len(text), _WINDOW))
    return _to_tokens(hundredths, text)


@lru_cache(maxsize=512)
def _estimate_cached(text: str) -> int:
    return _to_tokens(_hundredths(text), text)


def _to_tokens(hundredths: int, text: str) -> int:
    return max(1, -(-hundredths // 100)) if text else 0


def estimate_each(texts: Sequence[str]) -> list[int]:
    """Return `estimate_tokens` of every text. Faster for thousands of short texts."""
    if len(texts) < _MANY:
        return [estimate_tokens(text) for text in texts]
    tokens = [0] * len(texts)
    plain = []
    for place, text in enumerate(texts):
        if len(text) < _SHORT and text.isascii() and "\0" not in text:
            plain.append(place)
        else:
            tokens[place] = estimate_tokens(text)
    for at in range(0, len(plain), _BATCH):
        places = plain[at : at + _BATCH]
        data = "\0".join([texts[place] for place in places]).encode("ascii")
        joined = _kinds(data)
        kinds = joined.split(b"\0")
        weights = joined.translate(_WEIGHT_OR_BORDER, _WEIGHTLESS).split(b"\0")
        words = joined.translate(_MERGE).split(b"\0")
        bordered = b" " + joined.translate(_LETTERS_OR_BORDER) + b" "
        runs = bordered.replace(b"\0", b" \0 ").split(b"\0")
        weighed = map(_weigh, data.split(b"\0"), kinds, weights, words, runs)
        for place, hundredths in zip(places, weighed, strict=True):
            tokens[place] = _to_tokens(hundredths, texts[place])
    return tokens
