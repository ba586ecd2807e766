"""A checkpoint from another field: the antibody BERT in the package antiberty 0.1.3, read as data, never imported."""

import hashlib
from importlib import metadata
from pathlib import Path

import pytest
import torch

from maskwright import api
from maskwright.hub.convert import convert
from maskwright.hub.folders import load_model, save_model

SHA256 = {
    "AntiBERTy_md_smooth/config.json": "e199c1692b5f0246ebc5522102044d6e900ffc7d56fa5932fdd5b3d56ef487e9",
    "AntiBERTy_md_smooth/pytorch_model.bin": "f1ae33eac8cc8784a7d4be5a600141d2fa7bc7d8d5b3f5324d64a6a63bd0f137",
    "vocab.txt": "6db8c6cd6361eb233005b2dfe665d40d7f1ba78951bdf0fe61fa670ce192419a",
}
SEQUENCES = ["____VQSGPEVKKPGTSVKVSCKASGFTF_SSAVQWVRQARGQ", "DVVMTQTPFSLPVSLG_QASISCRSS"]
# What antiberty 1.0.0 computes of these weights with transformers 5.23, both sequences as one padded batch.
IDS = [
    [int(one) for one in row.split()]
    for row in (
        "2 4 4 4 4 22 18 20 10 17 8 22 13 13 17 10 21 20 22 13 22 20 6 13 5 20 10 9 21 9 4 20 20 5 22 18 23 22 19 18 5"
        " 19 10 18 3",
        "2 7 22 22 15 21 18 21 17 9 20 14 17 22 20 14 10 4 18 5 20 12 20 6 19 20 20 3",
    )
]
NORMS = [
    [130.327, 140.648, 144.029, 146.612, 147.999, 150.505, 151.511, 143.368, 149.270],
    [102.976, 111.013, 113.523, 115.817, 116.944, 118.722, 119.504, 113.541, 117.813],
]
STATES = [  # layer 4, token 5, and the last layer, last token
    [[0.50189, 0.95321, -0.02893], [-0.53940, 1.03802, 0.29763]],
    [[-0.23351, -0.90417, -0.69385], [0.08059, 0.27583, 0.20878]],
]
FILLED = [
    [
        {"Q": 0.98319, "H": 0.01547, "K": 0.00048},
        {"M": 0.97382, "I": 0.00868, "L": 0.00515},
        {"Q": 0.95500, "P": 0.02315, "H": 0.00570},
        {"L": 0.91723, "M": 0.02857, "V": 0.02418},
        {"T": 0.95750, "P": 0.02723, "S": 0.00437},
    ],
    [{"D": 0.74601, "E": 0.21462, "A": 0.00951}],
]


@pytest.fixture
def source(tmp_path):
    try:
        files = metadata.files("antiberty") or []
    except metadata.PackageNotFoundError:
        pytest.skip("the package is missing: pip install --no-deps antiberty==0.1.3")
    (tmp_path / "source").mkdir()
    for name, expected in SHA256.items():
        found = [Path(str(file.locate())) for file in files if str(file).endswith(f"trained_models/{name}")]
        if not found:
            pytest.skip("the installed antiberty has no weights: pip install --no-deps antiberty==0.1.3")
        data = found[0].read_bytes()
        assert hashlib.sha256(data).hexdigest() == expected, f"{name} is not the published file"
        (tmp_path / "source" / Path(name).name).write_bytes(data)
    return tmp_path / "source"


@pytest.mark.slow
def test_the_antibody_model_is_that_of_its_package(source, tmp_path):
    convert(source, tmp_path / "converted")
    model, report = load_model(tmp_path / "converted")  # the class AntiBERTy names no head: its tensors do
    assert model.head_name == "mlm" and not report.new
    assert {name.split(".")[1] for name in report.unused} == {"chain", "graft", "species", "pooler"}
    save_model(model, tmp_path / "ours")

    texts = [" ".join(sequence).replace("_", "[MASK]") for sequence in SEQUENCES]
    assert [model.tokenizer(text).ids for text in texts] == IDS
    for row, norms, states in zip(IDS, NORMS, STATES, strict=True):
        with torch.no_grad():
            found = model(input_ids=torch.tensor([row]), output_hidden_states=True).hidden_states
        assert [float(layer.norm()) for layer in found] == pytest.approx(norms, abs=2e-3)
        for layer, token, expected in zip((4, 8), (5, -1), states, strict=True):
            torch.testing.assert_close(found[layer][0, token, :3], torch.tensor(expected), atol=2e-5, rtol=0)
    for folder in ("converted", "ours"):
        filler = api.open_mask_filler(tmp_path / folder, device="cpu", precision="fp32")
        for answer, expected in zip(filler.fill(texts, 3), FILLED, strict=True):
            found = [
                {model.tokenizer.id_to_token(one.token): one.score for one in mask.candidates} for mask in answer.masks
            ]
            assert found == [pytest.approx(one, abs=2e-5) for one in expected]
