"""The models in the package, each with the SHA-256 of its manifest; `tools/built_in.py` writes the entries.

A manifest has the SHA-256 of each file of a model.
"""

MANIFESTS = {
    "english": "5cbe475217e54265c94e2298600d3f084bb91e4857c94ff5ebbec9555a61e026",
    "english-spam": "cf98650fceff4430fe9e8f7f45cd6047ddb53bbdc585cd9f1dcb8ea8ec297b02",
    "english-entailment": "1946a6b91552b5d9cabe11ba876020938be3eba077a553ed1f8eddc23f7dd452",
    "english-pos": "979125112cb9337ef4246cd04b526a16a01cd8393469e034f8c3f6d060d9f196",
    "english-names": "aa26f5a6d0c7f8609b1fa7e5d83fd2f3f40750ae79afd79a1ca29298dcb2c889",
    "english-intents": "c8ca43e06ea694aa993742d23fa8a0a34f6c8941c6bd5232e7d4dd5148bcd8fb",
}
