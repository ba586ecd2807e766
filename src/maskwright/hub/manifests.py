"""The models in the package, each with the SHA-256 of its manifest; `tools/built_in.py` writes the entries.

A manifest has the SHA-256 of each file of a model.
"""

MANIFESTS = {
    "english": "2f82ad7150c472ba38c9a2a949ab80bc7931459bf7b333142ceb4b6b7fafb03b",
}
