"""The models in the package, each with the SHA-256 of its manifest; `tools/built_in.py` writes the entries.

A manifest has the SHA-256 of each file of a model.
"""

MANIFESTS = {
    "english": "a83e507f93a197c640a52a95aae018c02301880aeb6972d9fc4ba5598798cd53",
}
