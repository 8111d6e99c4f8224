"""Jobs made of runs, each a thin recipe over RLM."""
