"""Words from characters: where they begin, what filters see, and that a word knows nothing of its neighbors."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.nn.embeddings import CharacterWords, words_of
from nn.packs import draw

SPACE = 5
TEXTS = st.lists(st.lists(st.integers(0, 12), max_size=12), min_size=1, max_size=4)


def pack(texts):
    """Ids of texts end to end, and their lengths."""
    return torch.tensor([id for text in texts for id in text], dtype=torch.int64), [len(text) for text in texts]


def filled(width: int = 3) -> CharacterWords:
    part = CharacterWords(4, 9, width)
    generator = torch.Generator().manual_seed(2)
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, 0, 0.5, generator=generator)
    return part.double()


def test_words_are_runs_of_characters_and_special_tokens_stand_alone():
    ids, lengths = pack([[2, 7, 8, 5, 9, 3], [5, 6, 1, 7], []])
    found = words_of(ids, lengths, SPACE)
    assert found.of_token.tolist() == [0, 1, 1, 1, 2, 3, 4, 5, 6, 7]
    assert found.lengths == [4, 4, 0]
    assert found.is_space.tolist() == [False, False, False, True, False, False, False, False, False, False]


@given(TEXTS)
def test_a_word_is_the_same_alone_and_among_others(texts):
    ids, lengths = pack(texts)
    found, part, table = words_of(ids, lengths, SPACE), filled(), draw(13, 4, seed=1)
    vectors = part(table[ids], found)
    assert vectors.shape == (sum(found.lengths), 9)
    for word in range(len(vectors)):
        own = ids[(found.of_token == word) & ~found.is_space]
        alone = part(table[own], words_of(own, [len(own)], SPACE))
        torch.testing.assert_close(vectors[word : word + 1], alone)


def test_by_hand_a_convolution_over_neighbors_in_the_word_and_max_pooling():
    part = filled(2)
    with torch.no_grad():
        part.gate.weight.zero_()
        part.gate.bias.fill_(-100.0)  # the highway lets everything pass
    ids, lengths = pack([[7, 8, 5, 9]])
    table = draw(13, 4, seed=1)
    vectors = part(table[ids], words_of(ids, lengths, SPACE))
    one, two = part.filters
    singles = torch.stack([one(table[id]) for id in (7, 8)]).amax(0)
    blank = torch.zeros(4, dtype=torch.float64)
    pairs = torch.stack([two(torch.cat([table[7], table[8]])), two(torch.cat([table[8], blank]))]).amax(0)
    torch.testing.assert_close(vectors[0], torch.tanh(torch.cat([singles, pairs])))
