"""English words that tell little of a text's subject. `function_words.toml` has those of other languages."""

from __future__ import annotations

__all__ = ["FUNCTION_WORDS"]

_FUNCTION_WORDS = """
    a about after again all also am an and any are as at be because been before being between both but by
    can could did do does doing down during each for from had has have having he her here hers him his how i
    if in into is it its itself just me more most my no nor not now of off on once only or other our out
    over own same shall she should so some such than that the their them then there these they this those
    through to too under until up us very was we were what when where which while who whom whose why will
    with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words. They are ignored unless a query has no other words."""
