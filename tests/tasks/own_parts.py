"""A metric and a reader of another package: balanced accuracy, and lines of a label, two colons and a text."""

from maskwright.core.errors import RowError
from maskwright.tasks.evaluation.metrics import of_classes
from maskwright.text.formats.files import read_lines
from maskwright.text.readers.tables import Reader, Row, Table, check_rows


def read(path, skip_bad_rows=False):
    """Reads all rows. Raises RowErrors listing every line without two colons."""
    rows, faults = [], []
    for line in read_lines(path):
        label, mark, text = line.text.partition("::")
        if mark:
            rows.append(Row(text.strip(), None, label.strip(), line.number, str(path)))
        else:
            faults.append(RowError(str(path), line.number, None, "has no ::"))
    check_rows(path, rows, faults, skip_bad_rows)
    return Table(rows, faults, {"text": "text", "label": "label"})


READER = Reader(
    "colons",
    "labels and texts with colons between them",
    "one text per line after its label, as in spam:: text",
    "test.colons",
    recognizes=lambda path, columns: path.suffix == ".colons",
    read=lambda path, columns, skip_bad_rows, labeled: read(path, skip_bad_rows),
    is_text=True,
    read_classes=lambda path, columns, labels, skip_bad_rows: read(path, skip_bad_rows),
)


@of_classes
def balanced_accuracy(gold, predicted):
    from sklearn.metrics import balanced_accuracy_score

    return float(balanced_accuracy_score(gold, predicted))
