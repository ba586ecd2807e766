"""Incremental detokenization: streams text that is final, and ends it at stop strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.errors import InputError
from ...text.tokenizers.tokenizer import Tokenizer

UNFINISHED = "\ufffd"  # decoding of an incomplete UTF-8 character


class TextStreamer:
    """The generated text of one row.

    prompt: its ids; stops: stop strings, which are not part of the text; on_text: called with each new part of the text
    as soon as later tokens cannot change it.
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
        self._sent = 0

    def add(self, token: int) -> bool:
        """Adds a token; returns whether a stop string ends the text here."""
        self.ids.append(token)
        if not self.stops and self.on_text is None:
            return False
        text = self._decoded()
        end = first_stop(text, self.stops)
        if end < len(text):
            self.is_stopped = True
            self._send(text, end)
            return True
        self._send(text, self._certain(text))
        return False

    def text(self) -> str:
        """Returns the generated text, up to a stop string."""
        text = self._decoded()
        return text[: first_stop(text, self.stops)]

    def finish(self) -> str:
        """Returns the final text and streams the rest of it."""
        text = self.text()
        self._send(text, len(text))
        return text

    def _decoded(self) -> str:
        """Decodes all new tokens, as the difference to the decoded prompt."""
        whole = self.tokenizer.decode([*self.prompt, *self.ids])
        return whole[len(self.before) :] if whole.startswith(self.before) else self.tokenizer.decode(self.ids)

    def _certain(self, text: str) -> int:
        """Number of characters of `text` that later tokens cannot change and that begin no stop string."""
        end = len(text.rstrip(UNFINISHED))
        if not self.tokenizer.word_markers.keeps_spaces:  # the last word may grow, and its space may disappear
            end = max(text.rfind(" ", 0, end), 0)
        for stop in self.stops:
            longest = min(len(stop) - 1, end)
            end -= next((size for size in range(longest, 0, -1) if text[:end].endswith(stop[:size])), 0)
        return end

    def _send(self, text: str, end: int) -> None:
        if self.on_text is not None and end > self._sent:
            self.on_text(text[self._sent : end])
            self._sent = end


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Index of the first stop string; the length of the text if there is none."""
    return min([place for stop in stops if (place := text.find(stop)) >= 0], default=len(text))


def check_stops(tokenizer: Tokenizer, stops: Sequence[str]) -> None:
    """Raises InputError for a stop string that this tokenizer cannot generate."""
    for stop in stops:
        if not stop:
            raise InputError("A stop string is empty: every text would end at once. Remove it.")
        ids = tokenizer.encode_plain([stop])[0]
        spelled = tokenizer.decode(ids)
        if not ids or tokenizer.unk_id in ids or stop.strip() not in (spelled, spelled.strip()) or not spelled.strip():
            if spelled == stop:
                continue
            raise InputError(
                f"The stop string {stop!r} cannot occur: this tokenizer encodes it as {spelled!r}. Choose another one "
                "(the tokenizer may normalize case, accents and whitespace)."
            )
