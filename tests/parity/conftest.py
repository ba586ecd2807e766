"""Random weights of networks of transformers are the same in every order of the tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(7)
