"""The jobs people come with, each a recipe over RLM: ask, summarize, research; and a card's stages."""
