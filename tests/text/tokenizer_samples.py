"""Texts and vocabularies for the tokenizer tests: small ones written here, and strategies over all of Unicode."""

from functools import cache

from hypothesis import strategies as st

from maskwright.text.tokenizers.tokenizer import Tokenizer

KINDS = ("wordpiece", "wordpiece-score", "bpe", "byte-bpe", "word", "char")
LECTURE = {"old": 7, "older": 3, "finest": 9, "lowest": 4}
CORPUS = [
    "The old man told an older story; the oldest of them all was the finest.",
    "She walked along the lowest road, walking slowly, and walked back.",
    "Learning to learn is the finest thing: learners who learned it never unlearn it!",
    "In 1999 the naïve café owner (a Frenchman) sold 3.5 tons of crème brûlée.",
    "東京 is 東 + 京, and Ωμέγα is Greek; résumé, coöperate, Ångström, ﬁne.",
    "don't won't can't; it's 'quoted' -- well-known, state-of-the-art e-mail: a@b.c",
    "smart smarter smartest; old older oldest; low lower lowest; fine finer finest",
]

# One character of every plane and of the kinds that go wrong: combining, joined emoji, right to left, controls,
# NUL, private use, non-characters, whitespace of all sorts, full-width forms, ligatures, Hangul, CJK extensions.
_ODD = (
    "\u0301\u0308\u200d\ufe0f\u202e\u200b\u00ad\x00\x07\x0b\x0c\x1c\x1f\x7f\x85\u00a0\u2028\u2029\u3000\ufeff\ufffd"
    "\ue000\ufdd0\uffff\U0001fffe\U000f0000\U0010fffd\U0001f468\U0001f469\U0001f9d1\U0001f3fd\u0130\u0131\u1e9e\ufb01"
    "\uff21\u4e2d\U00020000\U0002a6df\U0002f81d\uac00\u1100\u1161\u0e33\u0f71\u0f72\u05d0\u0627\U0001d54f\U000e0041\u0345"
)
any_character = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from(_ODD),
    st.sampled_from(" \t\r\n.,;!?'\"()<>/[]#$%&*+-=@^_`{|}~0123456789"),
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGÄÖÜäöüßéèçñ"),
)
any_text = st.one_of(
    st.text(any_character, max_size=40),
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "the",
                    "oldest",
                    "Café",
                    "unlearning",
                    "[MASK]",
                    "[CLS]",
                    "[SEP]",
                    "[PAD]",
                    "##ing",
                    "</w>",
                    "東京",
                    "👩‍🚀",
                ]
            ),
            st.text(any_character, min_size=1, max_size=6),
        ),
        max_size=12,
    ).map(" ".join),
)


@cache
def trained(kind, vocab_size=400):
    return Tokenizer.train_from_iterator(CORPUS * 3, kind, vocab_size)
