"""Count tokens exactly with a vocabulary. Vocabularies are loaded on first use, never downloaded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from rlm.prompts.errors import UnknownCounter

__all__ = ["Count", "huggingface", "openai"]

Count = tuple[str, Callable[[str], int], Callable[[Sequence[str]], list[int]] | None]
"""Version, count of one text, counts of many texts."""

_VOCABULARY = "o200k_base"
_WINDOW = 32_768  # characters; the tokenizer refuses 200,000 tokens, and a character has up to four
_BORDER = re.compile(r"(?<=\n)(?=[^\W_])|(?<=[A-Za-z])(?= [A-Za-z])")
"""Places that no token of the vocabulary spans: it splits lines and words first."""


@cache
def openai() -> Count:
    """Return OpenAI's o200k counter; its vocabulary is in the package. Raises UnknownCounter without the
    extra."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # raised by its own file access
            import bpe_openai
    except ImportError:
        raise UnknownCounter(
            "the counter 'openai' needs the extra `tokens`: pip install 'rlm-kernel[tokens]'"
        ) from None
    encoding = bpe_openai.get_encoding(_VOCABULARY)

    def count(text: str) -> int:
        return sum(len(encoding.encode_ordinary(window)) for window in _windows(_replace_surrogates(text)))

    def each(texts: Sequence[str]) -> list[int]:
        if any(len(text) > _WINDOW for text in texts):
            return list(map(count, texts))
        valid = [_replace_surrogates(text) for text in texts]
        return [len(tokens) for tokens in encoding.encode_ordinary_batch(valid, num_threads=1)]

    return f"{_VOCABULARY}, bpe-openai {bpe_openai.__version__}", count, each


def _windows(text: str) -> Iterator[str]:
    """Yield `text` in pieces, split where it changes no token, or anywhere if there is no such place."""
    at = 0
    while len(text) - at > _WINDOW:
        border = _BORDER.search(text, at + _WINDOW // 2, at + _WINDOW)
        end = border.start() if border else at + _WINDOW
        yield text[at:end]
        at = end
    yield text[at:]


@cache
def huggingface(file: str) -> Count:
    """Return the counter of a `tokenizer.json` (`hf:FILE`), without the special tokens of a chat.

    Raises UnknownCounter without the extra, or for an invalid file.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UnknownCounter(
            f"the counter 'hf:{file}' needs the extra `hf`: pip install 'rlm-kernel[hf]'"
        ) from None
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise UnknownCounter(
            f"the counter 'hf:{file}' can't read that file ({error.strerror}): name a tokenizer.json"
        ) from error
    try:
        tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    except Exception as error:  # the library raises bare Exception
        raise UnknownCounter(f"'{file}' is not a Hugging Face tokenizer.json: {error}") from error

    def count(text: str) -> int:
        return len(tokenizer.encode(_replace_surrogates(text), add_special_tokens=False).ids)

    return f"sha256 {sha256(data).hexdigest()[:12]}", count, None


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates by question marks: they have no UTF-8 encoding."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
