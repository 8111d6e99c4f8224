"""The API of OpenAI: models, files, chat completions and responses."""
