"""Reads HTML back the way a browser would, strictly: every element that opens closes, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link"}


@dataclass
class Node:
    """An element with its attributes, and what it holds: text and elements in order."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    parts: list[str | Node] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    @property
    def classes(self) -> list[str]:
        """Names of its classes."""
        return (self.attributes.get("class") or "").split()

    def all(self, tag: str = "", class_: str = "") -> list[Node]:
        """Every element inside with that tag and class, in order."""
        found = []
        for part in self.parts:
            if isinstance(part, Node):
                if (not tag or part.tag == tag) and (not class_ or class_ in part.classes):
                    found.append(part)
                found += part.all(tag, class_)
        return found

    def rows(self) -> list[list[str]]:
        """The texts of its table rows."""
        return [[cell.text for cell in row.parts if isinstance(cell, Node)] for row in self.all("tr")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> says an attribute twice: {names}"
        node = Node(tag, dict(attrs))
        self.open[-1].parts.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read_html(text: str) -> Node:
    """The root of a document, or an AssertionError where it is not balanced."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"never closed: {[node.tag for node in reader.open[1:]]}"
    return reader.open[0]
