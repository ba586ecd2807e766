"""One server with a small model of each kind for all tests that do not change it."""

import pytest


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    from maskwright.models.build import build
    from maskwright.models.model import SentenceSettings
    from serve.small_models import WRITERS
    from studio.models import network, tokenizer, write

    folder = tmp_path_factory.mktemp("models")
    found = {name: write_one(folder / name) for name, write_one in WRITERS.items()}
    labels = ["entailment", "contradiction"]
    sparse = build(network(), "mlm", seed=3)
    sparse.sentence, sparse.tokenizer = SentenceSettings(sparse="max"), tokenizer()
    sparse.save(folder / "sparse")
    found["sparse"] = folder / "sparse"
    return found | {"entails": write(folder / "entails", "classification", {"task": "classification"}, labels=labels)}


@pytest.fixture(scope="session")
def served(models):
    from serve.in_thread import serving

    with serving(model=tuple(f"{name}={folder}" for name, folder in models.items()), access_log=False) as found:
        yield found
