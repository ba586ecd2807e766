"""Tag checks: tagging scheme, invalid tags and entity frequencies."""

from __future__ import annotations

from collections import Counter

from ..core.plural import plural
from ..tasks.tagging.schemes import OUTSIDE, find_scheme, repair, spans, split_tag
from ..text.readers.tagged import Sentence
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

    @property
    def scheme(self) -> str | None:
        """Tagging scheme; None for plain tags."""
        return find_scheme(self.counts)

    def shown(self) -> Counter[str]:
        """Count entities by type, or words by tag without a scheme."""
        if self.scheme is None:
            return self.counts
        return Counter(entity.type for row in self.rows for entity in spans(row.tags or ()))

    def findings(self) -> list[Finding]:
        """Return the findings."""
        if len(self.counts) < 2:
            sentence = f"Every word has the tag '{next(iter(self.counts), '')}': there is nothing to learn."
            return [Finding("constant-label", "problem", sentence, len(self.rows))]
        found = self._spelling()
        rare = {name: count for name, count in self.shown().items() if count < FEW}
        if rare:
            listed = ", ".join(f"{name} {count}" for name, count in sorted(rare.items(), key=lambda pair: pair[1])[:8])
            one, many = ("tag", "tags") if self.scheme is None else ("type of entity", "types of entity")
            sentence = f"{plural(len(rare), f'{one} occurs', f'{many} occur')} fewer than {FEW} times: {listed}."
            found.append(Finding("few-rows", "warning", sentence, len(rare), "Add sentences, or merge types."))
        empty = sum(all(tag == OUTSIDE for tag in row.tags or ()) for row in self.rows)
        if self.scheme is not None and empty:
            share = empty / len(self.rows)
            have = "has" if empty == 1 else "have"
            sentence = f"{plural(empty, 'sentence')} ({share:.0%}) {have} no entity."
            found.append(Finding("empty-sentences", "warning" if share > 0.9 else "note", sentence, empty))
        return found

    def _spelling(self) -> list[Finding]:
        scheme = self.scheme
        if scheme is None:
            return []
        faults, strange = FindingCounter(), FindingCounter()
        for row in self.rows:
            tags = row.tags or ()
            repaired, changed = repair(tags, scheme)
            for word, (tag, right) in enumerate(zip(tags, repaired, strict=True)):
                if tag != OUTSIDE and not split_tag(tag)[1]:
                    strange.add(self.file, row.line_of(word), f"'{tag}'")
                elif changed and tag != right:
                    faults.add(self.file, row.line_of(word), f"'{tag}' should be '{right}' in {scheme}")
        return [
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
    if train.scheme is None:
        unknown = [tag for tag in dev.counts if tag not in train.counts]
    else:
        types = {split_tag(tag)[1] for tag in train.counts}
        unknown = [tag for tag in dev.counts if split_tag(tag)[1] not in types]
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
