"""From tokens to text while it grows: what is certain so far, and where a stop string ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.errors import InputError
from ...text.tokenizer import Tokenizer

UNFINISHED = "\ufffd"  # how the first bytes of a character decode
WHOLE = (
    "byte-bpe",
    "char",
    "unigram",
)  # kinds whose pieces, decoded together, are the text: nothing joins or parts them


class Spelling:
    """The text of one row.

    prompt: its ids; stops: strings that end it, before which it is cut; on_text: given every new part of the text as
    soon as nothing that follows can change it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        stops: Sequence[str] = (),
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self.tokenizer, self.stops, self.on_text = tokenizer, stops, on_text
        self.prompt = list(prompt)
        self.before = tokenizer.decode(self.prompt)
        self.ids: list[int] = []
        self.is_stopped = False
        self._told = 0

    def add(self, token: int) -> bool:
        """One more token; whether a stop string ends the text here."""
        self.ids.append(token)
        if not self.stops and self.on_text is None:
            return False
        text = self._decoded()
        end = first_stop(text, self.stops)
        if end < len(text):
            self.is_stopped = True
            self._tell(text, end)
            return True
        self._tell(text, self._certain(text))
        return False

    def text(self) -> str:
        """What was added to the prompt, up to a stop string."""
        text = self._decoded()
        return text[: first_stop(text, self.stops)]

    def finish(self) -> str:
        """The same, when nothing more comes; the rest of it is told."""
        text = self.text()
        self._tell(text, len(text))
        return text

    def _decoded(self) -> str:
        """All new tokens as text: what the whole says beyond the prompt."""
        whole = self.tokenizer.decode([*self.prompt, *self.ids])
        return whole[len(self.before) :] if whole.startswith(self.before) else self.tokenizer.decode(self.ids)

    def _certain(self, text: str) -> int:
        """How many characters of `text` no further token changes, and no stop string begins in."""
        end = len(text.rstrip(UNFINISHED))
        if self.tokenizer.kind not in WHOLE:  # the last word may still grow, and its space may go
            end = max(text.rfind(" ", 0, end), 0)
        for stop in self.stops:
            longest = min(len(stop) - 1, end)
            end -= next((size for size in range(longest, 0, -1) if text[:end].endswith(stop[:size])), 0)
        return end

    def _tell(self, text: str, end: int) -> None:
        if self.on_text is not None and end > self._told:
            self.on_text(text[self._told : end])
            self._told = end


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Where the first stop string begins; the length of the text where there is none."""
    return min([place for stop in stops if (place := text.find(stop)) >= 0], default=len(text))


def check_stops(tokenizer: Tokenizer, stops: Sequence[str]) -> None:
    """Raise InputError for a stop string that no tokens of this tokenizer spell, for it would never come."""
    for stop in stops:
        if not stop:
            raise InputError("A stop string is empty: every text would end at once. Leave it out.")
        ids = tokenizer.encode_plain([stop])[0]
        spelled = tokenizer.decode(ids)
        if not ids or tokenizer.unk_id in ids or stop.strip() not in (spelled, spelled.strip()) or not spelled.strip():
            if spelled == stop:
                continue
            raise InputError(
                f"The stop string {stop!r} never comes: this tokenizer writes it as {spelled!r}. Choose one that it "
                "can write (case, accents and white space may be lost to it)."
            )
