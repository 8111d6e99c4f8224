"""Checks whether the cited passages support the claims of an answer.

`claims` splits an answer, `passages` are what it cites, `words` compares without a model, `model_check` asks
a model, and `check` joins both. An answer is split only to be checked: what is shown is its own text.
"""
