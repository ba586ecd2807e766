"""The models in the package, each with the SHA-256 of its manifest; `tools/built_in.py` writes the entries.

A manifest has the SHA-256 of each file of a model.
"""

MANIFESTS = {
    "english": "5cbe475217e54265c94e2298600d3f084bb91e4857c94ff5ebbec9555a61e026",
    "english-spam": "26ab428c0021519a53744442de88c9305899dd1dba599f96ecb24914c701021b",
    "english-entailment": "d0409995480f1dbbc9ea8bb554db857d467e1de743224548436a346a8ab85791",
    "english-pos": "0f85228afbcedfb5f66fc9aa642a11babeccce619ea5beecc7587df48d95e305",
    "english-names": "2af6aba604917190a41dc8912b96672a2203434bc6cd5179eeb346ff7c99dc35",
    "english-intents": "1a1adf7168b8ca4a29c3e9bd40d63e49f36f0a160da2877335147d785b12a608",
}
