"""Checks whether the cited passages support the claims of an answer.

`claims` splits an answer, `passages` are what it cites, `word_check` compares without a model, `model_check`
asks a model, `check` joins both, and `mending` lets a model correct what is not supported.
"""
