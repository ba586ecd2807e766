"""The files of benchmarks in their original layouts, tiny and made up."""

import json
import random

WORDS = "the old cat saw a small dog and then it ran home".split()  # noqa: SIM905
GOOD, BAD = ["fine", "good"], ["bad", "poor"]


def _text(rng, label):
    """A sentence whose label one word tells; some have a quote that is no quoting."""
    words = [*rng.choices(WORDS, k=4), rng.choice(GOOD if label else BAD)]
    return ('"' if rng.random() < 0.3 else "") + " ".join(words)


def _rows(seed, count):
    rng = random.Random(seed)
    for number in range(count):
        label = number % 2
        yield number, label, _text(rng, label), _text(rng, label)


def glue(root, rows=12):
    """All nine tasks of GLUE, and the diagnostic rows, in the columns of the original files."""
    for place, (split, count) in enumerate((("train", rows), ("dev", 8), ("test", 4))):
        has_label = split != "test"
        binary = list(_rows(place, count))
        nli = [(n, ("neutral", "entailment", "contradiction")[n % 3], a, b) for n, _, a, b in binary]
        word = ("not_entailment", "entailment")
        if has_label:
            cola = [f"gj04\t{label}\t{'' if label else '*'}\t{a}" for _, label, a, _ in binary]
            mrpc = ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
            mrpc += [f"{label}\t{n}\t{n + 900}\t{a}\t{b}" for n, label, a, b in binary]
            qqp = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"]
            qqp += [f"{n}\t{n}\t{n}\t{a}\t{b}\t{label}" for n, label, a, b in binary]
        else:
            cola = ["index\tsentence", *(f"{n}\t{a}" for n, _, a, _ in binary)]
            mrpc = ["index\t#1 ID\t#2 ID\t#1 String\t#2 String", *(f"{n}\t1\t2\t{a}\t{b}" for n, _, a, b in binary)]
            qqp = ["id\tquestion1\tquestion2", *(f"{n}\t{a}\t{b}" for n, _, a, b in binary)]
        _write(root / "CoLA" / f"{split}.tsv", cola)
        _write(root / "MRPC" / f"{split}.tsv", mrpc)
        _write(root / "QQP" / f"{split}.tsv", qqp)
        _write(root / "SST-2" / f"{split}.tsv", _table(binary, ["sentence"], ["label"], has_label))
        _write(
            root / "RTE" / f"{split}.tsv",
            _table([(n, word[v], a, b) for n, v, a, b in binary], None, ["label"], has_label),
        )
        qnli = _table([(n, word[v], a, b) for n, v, a, b in binary], ["question", "sentence"], ["label"], has_label)
        _write(root / "QNLI" / f"{split}.tsv", qnli)
        stsb = [(n, f"{1.0 + 3 * v + n / 50:.3f}", a, b) for n, v, a, b in binary]
        _write(root / "STS-B" / f"{split}.tsv", _table(stsb, None, ["score"], has_label))
        _write(root / "WNLI" / f"{split}.tsv", _table(binary, None, ["label"], has_label))
        names = ("train",) if split == "train" else (f"{split}_matched", f"{split}_mismatched")
        for name in names:
            lines = _table(nli, None, ["label1", "gold_label"] if has_label else [], has_label, twice=True)
            if has_label and split == "dev":
                lines.append("99\tno one\tagreed\tneutral\t-")
            _write(root / "MNLI" / f"{name}.tsv", lines)
    diagnostic = ["index\tsentence1\tsentence2", *(f"{n}\t{a}\t{b}" for n, _, a, b in _rows(9, 3))]
    _write(root / "diagnostic" / "diagnostic.tsv", diagnostic)
    return root


def _table(rows, texts, labels, has_label, twice=False):
    texts = texts or ["sentence1", "sentence2"]
    columns = ["index", *texts, *(labels if has_label else [])]
    lines = ["\t".join(columns)]
    for number, label, first, second in rows:
        cells = [str(number), *((first, second)[: len(texts)])]
        cells += [str(label)] * (2 if twice else 1) if has_label else []
        lines.append("\t".join(cells))
    return lines


def squad(path, count, seed, can_refuse=False):
    """A SQuAD file: who lives where."""
    rng = random.Random(seed)
    paragraphs = []
    for number in range(count):
        who, where = rng.choice(["Anna", "Bob"]), rng.choice(["Rome", "Oslo"])
        context = f"{who} lives in {where} now ."
        golds = [{"text": where, "answer_start": context.index(where)}]
        entry = {"id": f"{seed}-{number}", "question": f"Where does {who} live ?", "answers": golds}
        if can_refuse and number % 3 == 0:
            entry |= {"question": "Where is the cat ?", "answers": [], "is_impossible": True}
        paragraphs.append({"context": context, "qas": [entry]})
    return _write(path, [json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})])


def conll(path, count, seed):
    """Columns as in eng.train: entities begin with I-, and with B- only after another of their type."""
    rng = random.Random(seed)
    lines = ["-DOCSTART- -X- O O", ""]
    for _ in range(count):
        who, where = rng.choice(["Anna", "Bob"]), rng.choice(["Rome", "Oslo"])
        lines += [f"{who} NNP I-NP I-PER", "saw VBD I-VP O", f"{where} NNP I-NP I-LOC", f"{where} NNP I-NP B-LOC", ""]
    return _write(path, lines)


def swag(path, count, seed):
    rng = random.Random(seed)
    lines = [",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"]
    for number in range(count):
        label = rng.randrange(4)
        endings = [f'"{rng.choice(WORDS)}, {"good" if place == label else "bad"}"' for place in range(4)]
        lines.append(f"{number},v{number},{number},x,the old cat saw a dog.,It,gold,{','.join(endings)},{label}")
    return _write(path, lines)


def _write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
