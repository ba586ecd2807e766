"""The models in the package, each with the SHA-256 of its manifest; `tools/built_in.py` writes the entries.

A manifest has the SHA-256 of each file of a model.
"""

MANIFESTS = {
    "english": "5cbe475217e54265c94e2298600d3f084bb91e4857c94ff5ebbec9555a61e026",
}
