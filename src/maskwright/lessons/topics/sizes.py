"""Sizes and costs: parameters, hardware and time, and the cost of a layer by text length."""

from __future__ import annotations

from ...models.presets import preset
from ...models.sizes import parameter_count
from ...report import Bar, Bars, Table
from ...report.charts import Chart, Series
from ..parts import (
    DAY,
    FILTER,
    KINDS,
    P100_SUSTAINED,
    TPU_V3,
    WINDOW,
    bert_work,
    budget,
    measure,
    own_lengths,
    power,
    transformer_count,
)
from ..recorder import LessonRecorder

BERT = {"bert-base": ("110 M", 109_482_240), "bert-large": ("340 M, 345 M", 335_141_888)}
GPT2 = {
    "gpt2": ("117M", 124_439_808),
    "gpt2-medium": ("345M", 354_823_168),
    "gpt2-large": ("762M", 774_030_080),
    "gpt2-xl": ("1542M", 1_557_611_200),
}


def lesson_bert_sizes(record: LessonRecorder, layers: int, width: int, vocabulary: int) -> None:
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


def lesson_gpt2_sizes(record: LessonRecorder) -> None:
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


def lesson_vocabulary_cost(record: LessonRecorder, vocabulary: int) -> None:
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


def lesson_smaller_models(record: LessonRecorder, layers: int, embedding: int) -> None:
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


def lesson_transformer_cost(record: LessonRecorder, devices: int, days: float) -> None:
    base, big = budget(8, P100_SUSTAINED, DAY / 2), budget(devices, P100_SUSTAINED, days * DAY)
    by_hand = devices * days * 24 * 3600 * 9.5e12 / 1e19
    record.near(f"{devices} P100 for {days:g} days at 9.5 TFLOP/s, 1e19", by_hand, big / 1e19, digits=2, law=True)
    record.near("Transformer (base), 1e18 operations", 3.3, base / 1e18, 0.05, digits=2)
    record.near("Transformer (big), 1e19 operations", 2.3, big / 1e19, 0.05, digits=2)
    four = budget(8, P100_SUSTAINED, 4 * DAY)
    record.off(
        "days of the big model on 8 GPUs",
        "~4 days; 3.5 days on 8 P100",
        2.3,
        big / 1e19,
        f"two lectures differ; 3.5 days agree with the published 2.3e19, 4 days would be {four / 1e19:.2f}e19",
        within=0.05,
        digits=2,
    )
    counted = transformer_count(512, 2048, 1e5)
    token = 6 * (2 * (3_145_728 + 4_194_304) + 4 * 512 * 63) + 2 * 512 * 37_000  # matrices, attention, words
    record.near(
        "operations of the base run by hand, 1e17", 3 * 1e5 * 25_000 * token / 1e17, counted / 1e17, 0.01, digits=2
    )
    record.holds("our count and the published cost", "the order of 3.3e18", f"{counted:.1e}", 5e17 < counted < base)
    rows = [
        ("base", "8 P100, 12 hours", f"{base:.2e}", f"{counted:.2e}"),
        ("big", f"{devices} P100, {days:g} days", f"{big:.2e}", f"{transformer_count(1024, 4096, 3e5):.2e}"),
    ]
    record.show(Table(["Transformer", "ran on", "hardware peak", "operations needed"], rows, right=()))
    record.answer(
        f"{counted / base:.0%} of the hardware's peak in that time was used for the matrix products of the network. "
        "Published costs are hardware times time, an upper bound."
    )


def lesson_bert_cost(record: LessonRecorder, days: float, speed: int) -> None:
    found, work = {}, {name: bert_work(name) for name in ("bert-base", "bert-large")}
    for name, tpus, chips in (("bert-base", 4, 16), ("bert-large", 16, 64)):
        record.equal(f"{name}: {tpus} Cloud TPUs are chips", chips, 4 * tpus)
        found[name] = work[name] / budget(chips, TPU_V3, days * DAY)
        record.holds(
            f"{name}: {days:g} days on {chips} chips",
            "sufficient for its run",
            f"{found[name]:.0%} of the peak",
            0.01 < found[name] < 0.6,
        )
    peak = budget(16, TPU_V3, days * DAY) / 1e20
    record.near(f"16 chips for {days:g} days, at their peak, 1e20", 6.80, peak, 0.01, digits=2)
    ratio = work["bert-large"] / work["bert-base"]
    record.holds(
        "operations of Large relative to Base", "4 times the chips", f"{ratio:.2f} times the operations", 3 < ratio < 4
    )
    record.bars(f"Utilization of the chips over {days:g} days", found, ".0%")
    tokens, entries = 256 * (9e5 * 128 + 1e5 * 512), 12 * 12 * 768**2
    least = work["bert-base"] / (6 * entries * tokens)
    record.holds(
        "6 operations × 85 M entries × 43 G tokens",
        "and attention, and words",
        f"{least:.2f} times that",
        1 < least < 1.3,
        law=True,
    )
    one = work["bert-base"] / (speed * 1e9) / DAY / 365
    record.answer(
        f"At {speed} GFLOP/s, {one:.3g} years (100 is the speed of a good CPU core). maskwright plan estimates the "
        "time on your machine, and which smaller model fits into a night."
    )


LENGTHS = (128, 512, 1024, 2048, 4096)


def lesson_complexity(record: LessonRecorder, width: int, length: int) -> None:
    slides = {
        "self-attention": ("n^2 d", "1", "1"),
        "recurrent": ("n d^2", "n", "n"),
        "convolutional": ("k n d^2", "1", "log_k n"),
        "restricted attention": ("r n d", "1", "n / r"),
    }
    rows = []
    for kind in KINDS:
        record.equal(
            f"{kind.name}: cost, steps, maximum path length",
            ", ".join(slides[kind.name]),
            f"{kind.cost}, {kind.sequential}, {kind.path}",
        )
        fitted = power(LENGTHS, [kind.flops(n, 64, FILTER, WINDOW) for n in LENGTHS])
        record.near(f"{kind.name}: exponent of n in its operations", float(kind.power), fitted, digits=2)
        rows.append((kind.name, f"O({kind.cost})", f"O({kind.sequential})", f"O({kind.path})"))
    record.show(Table(["layer", "cost", "sequential steps", "maximum path length"], rows))
    operations = {kind.name: kind.flops(length, width, FILTER, WINDOW) for kind in KINDS}
    ratio = operations["self-attention"] / operations["recurrent"]
    record.near("operations of self-attention relative to recurrent: n / d", length / width, ratio, digits=3, law=True)
    bars = [Bar(name, count, f"{count / 1e6:,.1f} M") for name, count in operations.items()]
    record.show(Bars(bars, title=f"Operations for {length:,} tokens of width {width:,}"))
    attention, recurrent = KINDS[:2]
    sizes = (width, FILTER, WINDOW)
    cross = next(n for n in range(1, 2 * width + 2) if attention.flops(n, *sizes) > recurrent.flops(n, *sizes))
    record.answer(
        f"If the text is longer than the hidden size: with d = {width}, {cross:,} is the first length at which n² d "
        f"exceeds n d². But the recurrent layer needs {length:,} sequential steps for {length:,} tokens, attention one."
    )
    lengths, measured_width = (LENGTHS, 32) if not record.is_own else (own_lengths(length), width)
    seconds = measure(lengths, measured_width)
    # No check of the times: they depend on what else the machine computes.
    half = min(len(lengths) // 2, len(lengths) - 2)
    exponents = {name: power(lengths[half:], own[half:]) for name, own in seconds.items()}
    times = [
        (name, *(f"{1e3 * value:.3g} ms" for value in own), f"{exponents[name]:.2f} ({kind.power})")
        for kind, (name, own) in zip(KINDS, seconds.items(), strict=True)
    ]
    title = f"Measured times of one layer, width {measured_width}"
    record.show(Table(["layer", *(f"n = {n:,}" for n in lengths), "exponent of n"], times, title=title))
    lines = [Series(name, list(lengths), [1000 * one for one in own], smooth=False) for name, own in seconds.items()]
    record.charts(Chart(title, lines, x_label="tokens", log_y=True))
