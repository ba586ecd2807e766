"""Parameters of published networks, counted from their configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def _bert(record: LessonRecorder) -> None:
    from ...models.describe import parameter_count
    from ...models.presets import preset
    from ...report import Bar, Bars, Table

    rows = []
    for name, (slide, exact) in BERT.items():
        config = preset(name)
        found = parameter_count(config)
        note = "rounded on the slides" if name == "bert-base" else "the slides differ"
        record.off(name, slide, exact, found, f"{note}; exact with 30,522 words and the pooler")
        rows.append((name, config.num_hidden_layers, config.hidden_size, config.num_attention_heads, found))
    base = preset("bert-base")
    width, inner = base.hidden_size, base.intermediate_size
    tables = (base.vocab_size + base.max_position_embeddings + base.type_vocab_size + 2) * width
    layer = 4 * (width + 1) * width + (width + 1) * inner + (inner + 1) * width + 4 * width
    pooler = (width + 1) * width
    record.equal("tables + 12 layers + pooler, by hand", tables + 12 * layer + pooler, parameter_count(base))
    record.show(
        Table(
            ["preset", "layers", "width", "heads", "parameters"], rows, right=["layers", "width", "heads", "parameters"]
        ),
        Bars(
            [
                Bar("tables", tables, f"{tables / 1e6:.1f} M"),
                Bar("12 layers", 12 * layer, f"{12 * layer / 1e6:.1f} M"),
                Bar("pooler", pooler, f"{pooler / 1e6:.1f} M"),
            ],
            title="Parameters of BERT-Base",
        ),
    )
    deeper = parameter_count(preset("bert-base", num_hidden_layers=24))
    record.equal("12 more layers add", 12 * layer, deeper - parameter_count(base))
    record.answer(
        f"Only in part: more depth gives {deeper / 1e6:.0f} M. BERT-Large is also a third wider, and the size of a "
        f"layer is quadratic in its width. One layer of BERT-Base has {layer:,} parameters."
    )


def _gpt2(record: LessonRecorder) -> None:
    from ...models.describe import parameter_count
    from ...models.presets import preset
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


def _transformer(record: LessonRecorder) -> None:
    from ...models.describe import parameter_count
    from ...models.presets import preset
    from ...report import Bar, Bars

    sizes = (25_000, 32_000, 37_000)
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
    record.show(Bars([Bar(f"{size:,} words", count, f"{count / 1e6:.1f} M") for size, count in found.items()]))
    apart = parameter_count(preset("transformer-base", vocab_size=37_000, decoder_vocab_size=37_000), "seq2seq")
    record.holds(
        "separate vocabularies",
        "(shared)",
        f"{apart / 1e6:.1f} M instead of {found[37_000] / 1e6:.1f} M",
        apart == found[37_000] + 37_000 * 512,
    )
    record.answer(
        f"A second table of 37,000 rows of 512, {37_000 * 512 / 1e6:.1f} M parameters, is saved: source, target and "
        "output share one table, and names and numbers with the same spelling in both languages are one entry."
    )


def _smaller(record: LessonRecorder) -> None:
    from ...models.describe import parameter_count
    from ...models.presets import preset
    from ...report import Bar, Bars

    base, distil = parameter_count(preset("bert-base")), parameter_count(preset("distilbert-base"))
    record.near("DistilBERT: smaller by 40 %", 0.4, 1 - distil / base, 0.01, digits=3)
    albert = parameter_count(preset("albert-base"))
    record.equal("ALBERT: 12 M", 12, round(albert / 1e6))
    deep = {layers: parameter_count(preset("albert-base", num_hidden_layers=layers)) for layers in (6, 12, 24)}
    record.equal("ALBERT with 6, 12, 24 layers", [albert] * 3, list(deep.values()))
    words = preset("albert-base")
    factorized = words.vocab_size * (words.embedding_size or 0) + (words.embedding_size or 0) * words.hidden_size
    record.holds(
        "word embeddings: V × 128 + 128 × 768", "V × 768 is 23.0 M", f"{factorized / 1e6:.1f} M", factorized < 4e6
    )
    record.show(
        Bars(
            [
                Bar(name, count, f"{count / 1e6:.1f} M")
                for name, count in (("BERT-Base", base), ("DistilBERT", distil), ("ALBERT-Base", albert))
            ]
        )
    )
    record.answer(
        f"No. Shared layers reduce memory and file size ({albert / 1e6:.1f} M), not computation: all twelve layers are "
        "computed. DistilBERT has six layers and takes half the time."
    )


LESSONS = (
    Lesson(
        "bert-sizes",
        PART,
        APPLICATIONS,
        "Model Architecture and Training",
        "The exact parameter count of BERT",
        "Parameters follow from the configuration: tables, layers, pooler. Nothing is allocated to count them.",
        ("models.describe:parameter_count",),
        "Is BERT-Large large because of its depth?",
        _bert,
    ),
    Lesson(
        "gpt2-sizes",
        PART,
        APPLICATIONS,
        "Size Matters",
        "GPT-2's sizes, and their names",
        "The four models are known by wrong parameter counts. The lesson computes the exact counts from the published "
        "widths and depths.",
        ("models.describe:parameter_count",),
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
        ("models.describe:parameter_count",),
        "What does a shared vocabulary for two languages save?",
        _transformer,
    ),
    Lesson(
        "smaller-models",
        PART,
        FRONTIERS,
        "Smaller Model",
        "Fewer layers, or shared layers",
        "DistilBERT has half the layers. ALBERT uses one set of weights for all layers, and word embeddings of 128 "
        "dimensions that are projected to 768.",
        ("models.describe:parameter_count",),
        "Is ALBERT faster because it is smaller?",
        _smaller,
    ),
)
