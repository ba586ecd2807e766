"""Parameters of published networks, counted from their configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import integer
from ..lesson import APPLICATIONS, FRONTIERS, NEUROCOMPUTING, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Sizes and costs"
BERT = {"bert-base": ("110 M", 109_482_240), "bert-large": ("340 M, 345 M", 335_141_888)}
GPT2 = {
    "gpt2": ("117M", 124_439_808),
    "gpt2-medium": ("345M", 354_823_168),
    "gpt2-large": ("762M", 774_030_080),
    "gpt2-xl": ("1542M", 1_557_611_200),
}


def _bert(record: LessonRecorder, layers: int, width: int, vocabulary: int) -> None:
    from ...models.presets import preset
    from ...models.sizes import parameter_count
    from ...report import Bar, Bars, Table

    rows = []
    for name, (slide, exact) in BERT.items():
        config = preset(name)
        found = parameter_count(config)
        note = "rounded on the slides" if name == "bert-base" else "the slides differ"
        record.off(name, slide, exact, found, f"{note}; exact with 30,522 words and the pooler")
        rows.append((name, config.num_hidden_layers, config.hidden_size, config.num_attention_heads, found))
    sizes = {"hidden_size": width, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    base = preset("bert-base", num_hidden_layers=layers, vocab_size=vocabulary, **sizes)
    inner = base.intermediate_size
    tables = (base.vocab_size + base.max_position_embeddings + base.type_vocab_size + 2) * width
    layer = 4 * (width + 1) * width + (width + 1) * inner + (inner + 1) * width + 4 * width
    pooler = (width + 1) * width
    whole = parameter_count(base)
    record.equal(f"tables + {layers} layers + pooler, by hand", tables + layers * layer + pooler, whole, law=True)
    record.show(
        Table(
            ["preset", "layers", "width", "heads", "parameters"], rows, right=["layers", "width", "heads", "parameters"]
        ),
        Bars(
            [
                Bar("tables", tables, f"{tables / 1e6:.1f} M"),
                Bar(f"{layers} layers", layers * layer, f"{layers * layer / 1e6:.1f} M"),
                Bar("pooler", pooler, f"{pooler / 1e6:.1f} M"),
            ],
            title=f"Parameters of BERT with {layers} layers of width {width}",
        ),
    )
    deeper = parameter_count(preset("bert-base", num_hidden_layers=2 * layers, vocab_size=vocabulary, **sizes))
    record.equal(f"{layers} more layers add", layers * layer, deeper - whole, law=True)
    record.answer(
        f"Only in part: twice the depth gives {deeper / 1e6:.0f} M instead of {whole / 1e6:.0f} M. BERT-Large is also "
        f"a third wider, and the size of a layer is quadratic in its width. One layer of width {width} has {layer:,} "
        "parameters."
    )


def _gpt2(record: LessonRecorder) -> None:
    from ...models.presets import preset
    from ...models.sizes import parameter_count
    from ...report import Table

    rows = []
    for name, (slide, exact) in GPT2.items():
        config = preset(name)
        found = parameter_count(config)
        record.off(
            name, slide, exact, found, "the published names keep older, wrong counts; these are the counts of the files"
        )
        rows.append((name, config.num_hidden_layers, config.hidden_size, slide, found))
    record.equal("widths", [768, 1024, 1280, 1600], [row[2] for row in rows])
    record.show(
        Table(["preset", "layers", "width", "called", "parameters"], rows, right=["layers", "width", "parameters"])
    )
    small = preset("gpt2")
    words = small.vocab_size * small.hidden_size
    share = words / parameter_count(small)
    record.near("fraction of the word embeddings in the small one", 0.31, share, 0.005, digits=2)
    record.answer(
        f"The word embeddings: {words / 1e6:.1f} M of {parameter_count(small) / 1e6:.1f} M, {share:.0%}. In the "
        f"largest model they are {small.vocab_size * 1600 / GPT2['gpt2-xl'][1]:.0%}: embeddings are linear in the "
        "width, layers quadratic."
    )


def _transformer(record: LessonRecorder, vocabulary: int) -> None:
    from ...models.presets import preset
    from ...models.sizes import parameter_count
    from ...report import Bar, Bars

    sizes = (25_000, 32_000, 37_000)
    own = parameter_count(preset("transformer-base", vocab_size=vocabulary), "seq2seq")
    found = {size: parameter_count(preset("transformer-base", vocab_size=size), "seq2seq") for size in sizes}
    record.equal("rows of the output layer", sizes[2] - sizes[1], (found[37_000] - found[32_000]) // 513)
    record.equal("parameters per word: 512 and a bias", 513, (found[37_000] - found[32_000]) / 5_000)
    record.holds(
        "vocabulary",
        "25000, 32000, 37000",
        "an option",
        len(set(found.values())) == 3,
        "the output slide has 25,000, the data slide 32,000 (en-fr) and 37,000 (en-de): all can be set",
    )
    each = 513 * (vocabulary - 25_000)
    record.equal(f"{vocabulary:,} words: 513 for each more or less than 25,000", found[25_000] + each, own, law=True)
    counts = sorted((found | {vocabulary: own}).items())
    record.show(Bars([Bar(f"{size:,} words", count, f"{count / 1e6:.1f} M") for size, count in counts]))
    two = preset("transformer-base", vocab_size=vocabulary, decoder_vocab_size=vocabulary)
    apart = parameter_count(two, "seq2seq")
    record.holds(
        "separate vocabularies",
        "(shared)",
        f"{apart / 1e6:.1f} M instead of {own / 1e6:.1f} M",
        apart == own + vocabulary * 512,
        law=True,
    )
    record.answer(
        f"A second table of {vocabulary:,} rows of 512, {vocabulary * 512 / 1e6:.1f} M parameters, is saved: source, "
        "target and output share one table, and names and numbers with the same spelling in both languages are one "
        "entry."
    )


def _smaller(record: LessonRecorder, layers: int, embedding: int) -> None:
    from ...models.presets import preset
    from ...models.sizes import parameter_count
    from ...report import Bar, Bars

    base, distil = parameter_count(preset("bert-base")), parameter_count(preset("distilbert-base"))
    record.near("DistilBERT: smaller by 40 %", 0.4, 1 - distil / base, 0.01, digits=3)
    words = preset("albert-base", num_hidden_layers=layers, embedding_size=embedding)
    albert = parameter_count(words)
    record.equal("ALBERT: 12 M", 12, round(albert / 1e6))
    depths = sorted({6, 12, 24, layers})
    deep = [parameter_count(preset("albert-base", num_hidden_layers=n, embedding_size=embedding)) for n in depths]
    record.equal(f"ALBERT with {', '.join(map(str, depths))} layers", [albert] * len(depths), deep, law=True)
    bert = parameter_count(preset("bert-base", num_hidden_layers=layers))
    record.holds(
        f"BERT with {layers} layers", "(not shared)", f"{bert / 1e6:.1f} M", bert > albert or layers == 1, law=True
    )
    factorized = words.vocab_size * embedding + embedding * words.hidden_size
    record.holds(
        f"word embeddings: V × {embedding} + {embedding} × 768",
        "V × 768 is 23.0 M",
        f"{factorized / 1e6:.1f} M",
        factorized < 4e6,
    )
    record.show(
        Bars(
            [
                Bar(name, count, f"{count / 1e6:.1f} M")
                for name, count in (
                    ("BERT-Base", base),
                    (f"BERT, {layers} layers", bert),
                    ("DistilBERT", distil),
                    (f"ALBERT, {layers} layers, embeddings of {embedding}", albert),
                )
            ]
        )
    )
    record.answer(
        f"No. Shared layers reduce memory and file size ({albert / 1e6:.1f} M), not computation: all {layers} layers "
        "are computed. DistilBERT has six layers and takes half the time."
    )


LESSONS = (
    Lesson(
        "bert-sizes",
        PART,
        APPLICATIONS,
        "Model Architecture and Training",
        "The exact parameter count of BERT",
        "Parameters follow from the configuration: tables, layers, pooler. Nothing is allocated to count them.",
        ("models.sizes:parameter_count",),
        "Is BERT-Large large because of its depth?",
        _bert,
        (
            integer("layers", "Number of layers", 12, 1, 48),
            integer("width", "Width of the hidden states", 768, 64, 4096, 64),
            integer("vocabulary", "Vocabulary size", 30_522, 1000, 250_000),
        ),
    ),
    Lesson(
        "gpt2-sizes",
        PART,
        APPLICATIONS,
        "Size Matters",
        "GPT-2's sizes, and their names",
        "The four models are known by wrong parameter counts. The lesson computes the exact counts from the published "
        "widths and depths.",
        ("models.sizes:parameter_count",),
        "Which part of the small model is largest?",
        _gpt2,
    ),
    Lesson(
        "vocabulary-cost",
        PART,
        NEUROCOMPUTING,
        "Output; Training procedure",
        "Parameters by vocabulary size",
        "The output layer has one row per vocabulary entry. The lecture mentions three sizes; each additional word "
        "adds a row and a bias.",
        ("models.sizes:parameter_count",),
        "What does a shared vocabulary for two languages save?",
        _transformer,
        (integer("vocabulary", "Vocabulary size", 37_000, 1000, 250_000),),
    ),
    Lesson(
        "smaller-models",
        PART,
        FRONTIERS,
        "Smaller Model",
        "Fewer layers, or shared layers",
        "DistilBERT has half the layers. ALBERT uses one set of weights for all layers, and word embeddings of 128 "
        "dimensions that are projected to 768.",
        ("models.sizes:parameter_count",),
        "Is ALBERT faster because it is smaller?",
        _smaller,
        (
            integer("layers", "Number of layers", 12, 1, 48),
            integer("embedding", "Dimensions of ALBERT's word embeddings", 128, 16, 512, 16),
        ),
    ),
)
