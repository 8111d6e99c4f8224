"""The jobs people come with, recipes over RLM: ask, summarize, research, compare; and a card's stages."""
