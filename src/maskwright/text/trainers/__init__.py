"""Training vocabularies: one file per kind, over one count of words; every result is an ordinary
`tokenizer.json`.

`core.registry` names them. Each takes an iterator of texts and a vocabulary size and returns a `Trained`.
"""
