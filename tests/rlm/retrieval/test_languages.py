"""Texts in other languages than English are found in every form of their words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlm.retrieval import Retriever
from rlm.retrieval.languages import ENGLISH, detect_language, stem_words
from rlm.retrieval.words import Tokens
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.body import Body

TEXTS = {
    "german": (
        "Der Mieter kann den Vertrag mit einer Frist von drei Monaten zum Ende eines Monats beenden. Die "
        "Kündigungen müssen schriftlich sein und werden erst wirksam, wenn sie bei dem Vermieter sind. Das "
        "gilt auch für die Häuser, die nicht im Ort liegen."
    ),
    "french": (
        "Le locataire peut mettre fin au contrat avec un délai de trois mois. Les résiliations doivent être "
        "écrites et ne sont valables que lorsque le bailleur les a reçues. Cela vaut aussi pour les maisons "
        "qui ne sont pas dans la ville."
    ),
    "spanish": (
        "El inquilino puede terminar el contrato con un plazo de tres meses. Las cancelaciones deben ser por "
        "escrito y no son válidas hasta que las tiene el dueño. Esto también es así para las casas que no "
        "están en la ciudad."
    ),
    "russian": (
        "Наниматель может прекратить договор, если он предупредил об этом за три месяца. Расторжения должны "
        "быть письменными, и они не действуют до того, как их получил хозяин. Это так и для домов, которые "
        "находятся не в городе."
    ),
    "finnish": (
        "Vuokralainen voi irtisanoa sopimuksen, jos hän tekee sen kolme kuukautta ennen. Irtisanomiset ovat "
        "voimassa vasta kun ne on tehty kirjallisesti ja vuokranantaja on saanut ne. Se koskee myös taloja, "
        "jotka eivät ole kaupungissa, mutta ei niitä, jotka olivat siellä."
    ),
    "polish": (
        "Najemca może zakończyć umowę, jeżeli zrobi to na trzy miesiące przed końcem. Wypowiedzenia są ważne "
        "tylko wtedy, gdy są na piśmie i gdy ma je już właściciel. To jest tak także dla domów, które nie "
        "są w mieście."
    ),
}
ENGLISH_TEXT = (
    "The tenant may end the contract with three months' notice. Notices are in writing, and they are valid "
    "once the landlord has them. This is also so for the houses that are not in the town."
)


def body_of(folder: Path, *texts: str) -> Body:
    with ContextFileWriter(folder) as writer:
        for number, text in enumerate(texts):
            writer.begin_document(f"doc{number}.txt", "text")
            writer.write(text + "\n")
        return writer.finish().open()


@pytest.fixture
def body(tmp_path: Path) -> Callable[..., Body]:
    return lambda *texts: body_of(tmp_path / "context", *texts)


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_few_sentences_is_told(language) -> None:
    assert detect_language(TEXTS[language]) == language
    assert detect_language(TEXTS[language] * 20 + ENGLISH_TEXT * 3) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        ENGLISH_TEXT,
        ENGLISH_TEXT * 3 + TEXTS["german"],
        "def die(der, das):\n    return der + das if der is not das else die(das, der)\n" * 40,
        "op,de,la,en,un\n" * 200,
        "今天天气很好，我们去散步。" * 50,
        "Ja, genau.",
    ],
)
def test_english_code_and_what_is_not_known_are_as_before(text) -> None:
    assert detect_language(text) == ENGLISH
    assert stem_words(ENGLISH)(text) == text


@pytest.mark.parametrize(
    ("language", "question", "hit"),
    [
        ("german", "Wann wirkt die Kündigung eines Hauses?", "Kündigungen"),
        ("german", "KU\u0308NDIGUNG", "Kündigungen"),
        ("french", "la résiliation", "résiliations"),
        ("spanish", "cancelación", "cancelaciones"),
        ("russian", "расторжение договора", "Расторжения"),
        ("finnish", "irtisanomisen jälkeen", "Irtisanomiset"),
        ("polish", "wypowiedzenie", "Wypowiedzenia"),
    ],
)
@pytest.mark.parametrize("rank", ["bm25", "tfidf"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_word_is_found_in_its_other_forms(body, language, question, hit, rank, mixed) -> None:
    """In a body of one language, and among English texts."""
    others = [ENGLISH_TEXT] * 5 if mixed else []
    with body(*others, TEXTS[language]) as context, Retriever(context) as retriever:
        (pack, *_) = retriever.retrieve(question, rank=rank)
        assert pack.text == TEXTS[language]
        assert hit in [context.text(*span) for span in pack.hits]


def test_the_word_itself_counts_for_more_than_another_form(body) -> None:
    one = TEXTS["german"]
    with (
        body(
            one.replace("Kündigungen", "Gekündigtes"), one, one.replace("Kündigungen", "Kündigung")
        ) as context,
        Retriever(context) as retriever,
    ):
        packs = retriever.retrieve("Kündigung")
        assert [pack.document for pack in packs][:2] == ["doc2.txt", "doc1.txt"]


def test_words_of_grammar_rank_nothing_in_their_language(body) -> None:
    with body(*TEXTS.values()) as context, Retriever(context) as retriever:
        assert {pack.document for pack in retriever.retrieve("die Frist von dem Vermieter")} == {"doc0.txt"}
        assert {pack.document for pack in retriever.retrieve("les maisons qui sont dans la ville")} == {
            "doc1.txt"
        }


def test_the_english_stems_of_other_rooms_are_as_before() -> None:
    tokens = Tokens()
    assert tokens.stems(["Kündigungen running"]) == [["kundigungen", "run"]]
    assert tokens.query("Kündigungen der Mieter").forms == ()
    tokens.close()
