"""What a question asks for: the words to be found, as patterns, or a text whose lines are counted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise

import Stemmer

from rlm.lazy_dataclass import dataclass
from rlm.retrieval.languages import function_words
from rlm.retrieval.words import FUNCTION_WORDS

__all__ = ["Question", "Word", "read_question"]

_MAX_WORDS = 16
_MAX_QUESTION = 2_000
_NAME = 2.0
_ASKING: dict[str, str] = {
    "czech": "kolik jaký jaké jakou kdo čí dlouho dlouhý vysoký vysoká daleko starý často stojí "
    "odpověz otázka",
    "danish": "hvornår hvorfor hvilken hvilket hvilke lang langt høj højt gammel ofte koster svar spørgsmål",
    "dutch": "hoeveel wanneer waarom welk welke lang hoog ver oud vaak kost kosten antwoord vraag heet",
    "english": "many much long far old big large high tall deep often cost costs mean means mention "
    "mentioned "
    "mentions say says said tell tells name names list give given find show please question answer according "
    "text document documents file files passage context explain describe summarize summarise "
    "summary overview "
    "may might must need outline main point points topic topics plot gist whole entire happen "
    "happens happened",
    "finnish": "montako paljonko kuinka milloin pitkä korkea vanha usein maksaa vastaa kysymys",
    "french": "combien quand où comment pourquoi quel quelle quels quelles coûte coûtent longtemps "
    "long longue "
    "haut haute loin vieux souvent répondez réponds réponse question dit document texte",
    "german": "lang lange hoch groß weit alt oft viele wieviel wieviele wer wen wem wessen wann "
    "warum weshalb "
    "woher wohin kostet kosten heißt bedeutet gibt nenne gib steht laut text dokument datei frage antwort "
    "antworte bitte",
    "hungarian": "mennyi hány mennyibe hol hová hosszú magas messze gyakran kerül válasz kérdés",
    "italian": "quanto quanta quanti quante quando come perché quali lungo lunga alto alta lontano vecchio "
    "spesso costa costano rispondi risposta domanda dice documento testo",
    "norwegian": "når hvilket lenge lang langt høy høyt gammel ofte koster svar spørsmål heter",
    "polish": "ile jaka jakie jaką długo długi długa wysoki wysoka daleko stary często kosztuje odpowiedz "
    "pytanie nazywa",
    "portuguese": "quanto quanta quantos quantas quais onde porquê longo longa alto alta longe velho "
    "frequentemente custa custam responda resposta pergunta diz documento texto",
    "romanian": "cât câtă câți câte unde lung lungă înalt înaltă departe vechi des costă răspunde răspuns "
    "întrebare",
    "russian": "сколько какие какое каков кому чья почему откуда долго длинный высокий далеко старый часто "
    "стоит стоят ответь ответ вопрос называется",
    "spanish": "cuánto cuánta cuántos cuántas cuál cuáles cuándo dónde cómo largo larga alto alta "
    "lejos viejo "
    "frecuencia cuesta cuestan responde respuesta pregunta dice documento texto llama",
    "swedish": "hurdan länge lång högt hög gammal ofta kostar svar svara fråga heter mycket många",
    "turkish": "kaç kadar hangi kimin uzun yüksek uzak eski sık tutar yanıtla cevap soru",
}
"""Words of a language that ask, and are not to be found in what answers (`how long`, `combien coûte`)."""
_INSTRUCTION = re.compile(
    r"^\W*(?:please\W+)?(?:answer|reply|respond|give|return|write|use|cite|quote|explain|think|be|do not"
    r"|don't|only|just|keep|format|output|antworte|antworten|nenne|gib|répond\w+|donne\w*|respond\w+|contest\w+"
    r"|rispond\w+|antwoord|svara?|odpowiedz|ответь\w*)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_QUOTED = re.compile('["“«„]([^"”»“„«]{2,80})["”»“]')
_WORD = re.compile(r"\w+(?:[.\-_:/@'’]+\w+)*")
_PATH = re.compile(r"[^\W\d_]{3,}(?:(?:\.|::|/)[^\W\d_]\w{2,})+")
_INNER = re.compile(r"[.\-_:/@]+")
_POSSESSIVE = re.compile(r"['’]s?$")
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,}")
_CJK_ASKING = re.compile(
    r"什么时候|什么|多少|哪里|哪个|是|的|吗|何時|いつ|どこ|だれ|誰|いくら|です|ですか|ますか|は|が|の"
)
_HOW_MANY = re.compile(r"\s*how (?:many|often)\b", re.IGNORECASE)
_LINES_WITH = re.compile(
    r"\blines? (?:(?:that|which) )?(?:with|mention\w*|contain\w*|match\w*|have|has|hold)\s+"
    r"(?:(?:the|a|an)\s+)?(?:(?:word|phrase|text|string|name|term)\s+)?(\S+?)\W*$",
    re.IGNORECASE,
)
_CAPITALS = re.compile(
    r"\s*[Hh]ow many ([A-Z][A-Z0-9_]+)(?: (?:log )?(?:lines?|entries|messages?|events?))?"
    r"(?: (?:are|is|were|do|does|have|has|we|there|in|this|the|it|logs?|file|input|text|contain))*\s*\?*\s*"
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase of the question, and the pattern of its forms in the input. `factor` is above 1 for
    names and numbers: what does not have them is seldom an answer."""

    text: str
    pattern: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """`words` are to be found, the longest first; `ranked` is the query of the ranking. `defined` are the
    names whose definition is asked for (`heapq.merge`: merge). `counted` is the pattern of the lines whose
    number is asked for, and `counted_text` what it is made of; both are empty for other questions."""

    words: tuple[Word, ...]
    ranked: str
    defined: tuple[str, ...] = ()
    counted: str = ""
    counted_text: str = ""


def read_question(question: str) -> Question:
    """Read a question in any language of the search. Sentences that only say how to answer are left out."""
    return _read_question(question[:_MAX_QUESTION])


@lru_cache(maxsize=64)
def _read_question(question: str) -> Question:
    asked = _without_instructions(question)
    language = _language_of(asked)
    words = {word.pattern: word for word in _words(asked, language)}
    found = sorted(words.values(), key=lambda word: -len(word.text))[:_MAX_WORDS]
    counted = _counted(asked)
    defined = tuple(_INNER.split(path)[-1] for path in _PATH.findall(asked))
    return Question(tuple(found), asked, defined, *(counted or ()))


def _without_instructions(question: str) -> str:
    sentences = _SENTENCE.split(question.strip())
    kept = [one for one in sentences if one.rstrip().endswith("?") or not _INSTRUCTION.match(one)]
    return " ".join(kept) or question


def _language_of(question: str) -> str:
    """Return the language that most of the words of grammar and of asking are of. Of equals English."""
    words = set(re.findall(r"[^\W\d_]+", question.casefold()))
    counts = {language: len(words & _ignored(language)) for language in _ASKING}
    return max(counts, key=lambda language: (counts[language], language == "english"))


@cache
def _ignored(language: str) -> frozenset[str]:
    words = function_words(language) | frozenset(_ASKING[language].split())
    return words | FUNCTION_WORDS if language == "english" else words


def _words(question: str, language: str) -> Iterator[Word]:
    for phrase in _QUOTED.findall(question):
        yield Word(phrase, r"(?i)" + r"\s+".join(map(re.escape, phrase.split())))
    for run in _CJK.findall(_CJK_ASKING.sub(" ", question)):
        for pair in pairwise(run):
            yield Word("".join(pair), re.escape("".join(pair)))
    stem = Stemmer.Stemmer(language).stemWord
    for word in _WORD.findall(_CJK.sub(" ", question)):
        whole = _POSSESSIVE.sub("", word)
        pieces = _INNER.split(whole)
        if len(pieces) > 1 and not _PATH.fullmatch(whole):
            # The whole of `key-137` tells most. The parts of `heapq.merge` may stand apart: in the name of a
            # file and in a definition.
            yield Word(whole, rf"(?i)\b{re.escape(whole)}\b")
        for piece in pieces if len(pieces) > 1 else [whole]:
            folded = piece.casefold()
            if folded not in _ignored(language) and (len(piece) > 1 or piece.isdigit()):
                is_name = not piece.islower() and not question.lstrip("¿¡ ").startswith(piece)
                yield Word(piece, _pattern(folded, stem(folded)), _NAME if is_name else 1.0)


def _pattern(word: str, stem: str) -> str:
    """Return the pattern of a word's forms: what it shares with its stem, and a short ending. Accents are
    ignored."""
    letters = enumerate(zip(word, stem, strict=False))
    shared = next((at for at, (one, other) in letters if _base(one) != _base(other)), len(stem))
    if shared == len(stem) < len(word) and stem.endswith("i"):
        shared -= 1  # `studies`, `study`
    if shared < 3 or any(map(str.isdigit, word)):
        return rf"(?i)\b{''.join(map(_letter, word))}\b"
    return rf"(?i)\b{''.join(map(_letter, word[:shared]))}\w{{0,4}}\b"


def _base(character: str) -> str:
    """Return the letter without its accent."""
    return unicodedata.normalize("NFD", character)[0]


def _letter(character: str) -> str:
    base = _base(character)
    accented = _accented().get(base, "")
    return f"[{base}{accented}]" if accented else re.escape(character)


@cache
def _accented() -> dict[str, str]:
    found: dict[str, str] = {}
    for code in range(0xC0, 0x250):
        character = chr(code)
        base = _base(character)
        if character.islower() and base != character and base.isascii():
            found[base] = found.get(base, "") + character
    return found


def _counted(question: str) -> tuple[str, str] | None:
    """Return the pattern of the lines whose number is asked for, and its text, if the question plainly says
    so: a quoted text, a word after `how many lines contain`, or a word in capitals."""
    if not _HOW_MANY.match(question):
        return None
    quoted = _QUOTED.findall(question)
    if capitals := _CAPITALS.fullmatch(question):
        text, flags = capitals[1], ""
    elif len(quoted) == 1:
        text, flags = quoted[0], "(?i)"
    elif found := _LINES_WITH.search(question):
        text = found[1]
        flags = "" if text.isupper() else "(?i)"
    else:
        return None
    left = r"\b" if text[0].isalnum() else ""
    right = r"\b" if text[-1].isalnum() else ""
    # The rest of the line belongs to the match, so that a line counts once.
    return f"{flags}{left}{re.escape(text)}{right}.*", text
