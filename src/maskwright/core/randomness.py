"""Counter-based random numbers: each generator is keyed by (seed, purpose, position).

There is no global generator state to save: data order, masks and dropout are functions of the position in the run, and
exact resume needs only that position.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, purpose: str, *place: int) -> int:
    """Returns a 63-bit seed for `purpose` at `place` (epoch, step, example, ...).

    Different purposes and positions give unrelated seeds: the key is hashed (BLAKE2b), not added up.
    """
    key = "/".join([str(int(seed)), purpose, *(str(int(number)) for number in place)])
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Returns a numpy generator for `purpose` at `place`; the same key always gives the same stream."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, purpose, *place)))
