"""Tag checks: tagging scheme, invalid tags and entity frequencies."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from ..core.plural import plural
from ..tasks.tagging.schemes import MISSING_TAGS, OUTSIDE, Notation, Reading, find_notation, repair, spans, split_tag
from ..text.readers.tagged import MISSING, Sentence
from .findings import Finding, FindingCounter, SourceLocation
from .labels import FEW
from .rows import Item


class Tags:
    """Tag statistics of one file. The scheme is known only after the last row, so the sentences are stored."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.rows: list[Sentence] = []
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}

    def see(self, item: Item) -> None:
        """Add a sentence to the statistics."""
        row: Sentence = item.row
        self.rows.append(row)
        for word, tag in enumerate(row.tags or ()):
            self.counts[tag] += 1
            self.where.setdefault(tag, row.line_of(word))

    @cached_property
    def notation(self) -> Notation | None:
        """Scheme and spelling of the tags; None for plain tags. Ask after the last row."""
        return find_notation(self.counts, [row.tags or () for row in self.rows])

    @property
    def described(self) -> str:
        """The scheme of the tags, in a clause."""
        return f"the tags are {self.notation.description if self.notation else 'plain, without entities'}"

    @cached_property
    def _reading(self) -> Reading:
        assert self.notation is not None
        return Reading(self.notation)

    def read(self, row: Sentence) -> list[str]:
        """Return the tags of a sentence as in `schemes`; what does not fit, as it is."""
        return list(row.tags or ()) if self.notation is None else [self._reading[tag] for tag in row.tags or ()]

    def types(self) -> set[str]:
        """Return the types of entities of the tags, in any case."""
        read = (self.notation.read(tag) for tag in self.counts) if self.notation else ()
        return {split_tag(tag or "")[1].casefold() for tag in read} - {""}

    def shown(self) -> Counter[str]:
        """Count entities by type, or words by tag without a scheme."""
        if self.notation is None:
            return Counter({tag: count for tag, count in self.counts.items() if tag != MISSING})
        return Counter(entity.type for row in self.rows for entity in spans(self.read(row)))

    def findings(self) -> list[Finding]:
        """Return the findings."""
        if len(self.counts) < 2:
            sentence = f"Every word has the tag '{next(iter(self.counts), '')}': there is nothing to learn."
            return [Finding("constant-label", "problem", sentence, len(self.rows))]
        found = self._spelling()
        rare = {name: count for name, count in self.shown().items() if count < FEW}
        if rare:
            listed = ", ".join(f"{name} {count}" for name, count in sorted(rare.items(), key=lambda pair: pair[1])[:8])
            one, many = ("tag", "tags") if self.notation is None else ("type of entity", "types of entity")
            sentence = f"{plural(len(rare), f'{one} occurs', f'{many} occur')} fewer than {FEW} times: {listed}."
            found.append(Finding("few-rows", "warning", sentence, len(rare), "Add sentences, or merge types."))
        if self.notation is None:
            return found
        empty = sum(all(tag in (OUTSIDE, MISSING) for tag in self.read(row)) for row in self.rows)
        if empty:
            share = empty / len(self.rows)
            have = "has" if empty == 1 else "have"
            sentence = f"{plural(empty, 'sentence')} ({share:.0%}) {have} no entity."
            found.append(Finding("empty-sentences", "warning" if share > 0.9 else "note", sentence, empty))
        return found

    def _spelling(self) -> list[Finding]:
        missing = FindingCounter()
        marks = (MISSING,) if self.notation is None else MISSING_TAGS
        for row in self.rows:
            for word, tag in enumerate(row.tags or ()):
                if tag in marks:
                    missing.add(self.file, row.line_of(word), f"'{tag or '_'}'")
        sentence = "{count:word has|words have} no tag."
        found = missing.finding("missing-tags", "warning", sentence, "Training leaves such words out.")
        if self.notation is None:
            return found
        scheme, written = self.notation.scheme, self.notation.description
        if written != "BIO":
            found.append(Finding("tag-scheme", "note", f"The tags are {written}.", len(self.rows)))
        faults, strange = FindingCounter(), FindingCounter()
        for row in self.rows:
            tags = self.read(row)
            repaired, changed = repair(tags, scheme)
            for word, (tag, right) in enumerate(zip(tags, repaired, strict=True)):
                if tag not in (OUTSIDE, MISSING) and not split_tag(tag)[1]:
                    strange.add(self.file, row.line_of(word), f"'{tag}'")
                elif changed and tag != right:
                    own, wanted = (row.tags or ())[word], self.notation.write(right)
                    faults.add(self.file, row.line_of(word), f"'{own}' should be '{wanted}' in {scheme}")
        return [
            *found,
            *strange.finding(
                "tags-outside-scheme", "problem", f"{{count:tag is|tags are}} not valid in {scheme}.", "Fix them."
            ),
            *faults.finding(
                "tag-spelling",
                "warning",
                f"{{count:tag does|tags do}} not follow the {scheme} scheme.",
                "Training repairs them.",
            ),
        ]


def against(train: Tags, dev: Tags) -> list[Finding]:
    """Find dev tags that training does not have."""
    notation = dev.notation or train.notation
    if train.notation is None or notation is None:
        unknown = [tag for tag in dev.counts if tag not in train.counts and tag != MISSING]
    else:
        read = {tag: notation.read(tag) for tag in dev.counts}
        types = train.types() | {""}
        unknown = [
            tag
            for tag, own in read.items()
            if own is None or (own != OUTSIDE and split_tag(own)[1].casefold() not in types)
        ]
    if not unknown:
        return []
    places = [SourceLocation(dev.file, dev.where[tag], f"'{tag}'") for tag in unknown[:5]]
    count = sum(dev.counts[tag] for tag in unknown)
    sentence = f"{plural(count, 'dev word has', 'dev words have')} a tag that training does not have."
    return [
        Finding(
            "unknown-dev-labels", "problem", sentence, count, "Fix them, or move such sentences to training.", places
        )
    ]
