"""Class imbalance and anomaly detection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import number
from ..lesson import AUTOENCODER, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"


def _imbalance(record: LessonRecorder, rare: float, separation: float) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...report import Bar, Bars, Table
    from ...tasks.evaluation.metrics import accuracy, f1, pr_auc
    from ...tasks.evaluation.rare import choose_threshold

    rng = generator(0, "lesson rare")
    rows = []
    always = 0.0
    for share in (0.10, rare):
        gold = (np.arange(2000) < 2000 * share).astype(int)
        never = np.zeros(2000, dtype=int)
        always = accuracy(gold, never)
        true = gold.mean()  # of 2,000 texts
        record.near(f"accuracy of 'never', {share:.0%} rare", 1 - true, always, digits=2, law=True)
        record.near(f"its F1, {share:.0%} rare", 0.0, f1(gold, never), digits=1, law=True)
        ranked = pr_auc(gold, np.ones(2000))
        record.near(f"PR-AUC of a random ranking, {share:.0%} rare", true, ranked, digits=2, law=True)
        scores = rng.normal(gold * separation, 1.0)
        cut = choose_threshold(scores, gold.astype(bool), [str(row) for row in range(2000)]).value
        given, half = (scores > cut).astype(int), (scores > separation).astype(int)
        rows.append((f"{share:.0%}", accuracy(gold, given), f1(gold, given), f1(gold, half), pr_auc(gold, scores)))
        record.holds(
            f"a chosen threshold, {share:.0%} rare",
            "not 0.5",
            f"F1 {f1(gold, given):.3f}, at the middle {f1(gold, half):.3f}",
            f1(gold, given) >= f1(gold, half),
            law=True,
        )
    record.show(Table(["rare", "accuracy", "F1", "F1 at the middle", "PR-AUC"], rows))
    record.show(
        Bars(
            [
                Bar("majority-class baseline", always, f"{always:.1%}"),
                Bar("the model", rows[-1][1], f"{rows[-1][1]:.1%}"),
            ],
            title=f"Accuracy with {rare:.0%} rare examples",
        )
    )
    record.answer(
        f"Hardly: a model that finds the rare examples has an accuracy of {rows[-1][1]:.1%}, the baseline "
        f"{always:.1%}. Their F1 is {rows[-1][2]:.2f} and 0."
    )


def _reconstruction(record: LessonRecorder, outside: float, threshold: float) -> None:
    import torch

    from ...models.config import ModelConfig
    from ...models.probes import AutoencoderHead
    from ...report import Bar, Bars

    head = AutoencoderHead(
        ModelConfig(vocab_size=10, hidden_size=8, num_attention_heads=2, intermediate_size=16)
    ).requires_grad_(False)
    with torch.no_grad():  # a network that reconstructs the first two dimensions, and not the other six
        for part in (head.down, head.up):
            part.weight.zero_()
            part.bias.zero_()
        head.down.weight[0, 0] = head.down.weight[1, 1] = 1.0
        head.up.weight[0, 0] = head.up.weight[1, 1] = 1.0
        head.center.zero_()
        head.log_scale.zero_()
    like = torch.zeros(1, 8)
    like[0, 0], like[0, 1] = 6.0, 6.0
    unlike = torch.zeros(1, 8)
    unlike[0, 5] = outside
    errors = [float(head(one).detach()) for one in (like, unlike)]
    record.equal("width of the bottleneck: a quarter", 2, head.down.weight.shape[0])
    record.near("error of a vector in its subspace", 0.0, errors[0], of=errors, law=True)
    record.near(f"error of a vector outside: {outside:g}² / 8", outside**2 / 8, errors[1], digits=2, law=True)
    verdicts = ["anomaly" if error > threshold else "like the training data" for error in errors]
    record.equal(f"threshold {threshold:g}: inside, outside", "like the training data, anomaly", ", ".join(verdicts))
    head.fit_scale(torch.tensor([[1.0] * 8, [3.0] * 8]))
    record.near("center and scale of 1 and 3", [2.0, 0.0], [float(head.center[0]), float(head.log_scale[0])], digits=1)
    record.show(
        Bars(
            [
                Bar("like the training data", errors[0] + 1e-9, f"{errors[0]:.2f}"),
                Bar("unlike the training data", errors[1], f"{errors[1]:.2f}"),
            ],
            title="Reconstruction error",
        )
    )
    record.answer(
        f"None: it is trained only on the common class, and a large reconstruction error ({errors[1]:.2f} compared "
        f"with {errors[0]:.2f} here) marks an anomaly. The page docs/how-to/imbalance.md compares it with weighted "
        "fine-tuning on real data; maskwright finetune anomaly trains it."
    )


LESSONS = (
    Lesson(
        "imbalance",
        PART,
        AUTOENCODER,
        "Class Imbalance Problem",
        "95% accuracy from the majority class",
        "Hate speech is 5 to 10% of real data. A model that never predicts it is correct for all other examples.",
        (
            "tasks.evaluation.metrics:f1",
            "tasks.evaluation.metrics:pr_auc",
            "tasks.evaluation.metrics:accuracy",
            "tasks.evaluation.rare:choose_threshold",
        ),
        "Does accuracy distinguish a good model from one that never finds a rare example?",
        _imbalance,
        (
            number("rare", "Fraction of rare examples", 0.05, 0.01, 0.5, 0.01),
            number("separation", "Mean score of the rare class; the other has 0", 1.5, 0, 5),
        ),
    ),
    Lesson(
        "reconstruction",
        PART,
        AUTOENCODER,
        "Autoencoder: input → output",
        "Anomalies have a large reconstruction error",
        "An autoencoder reconstructs a vector through a narrow layer. With weights set by hand to keep two of eight "
        "dimensions, the lesson shows the meaning of its error.",
        ("models.probes:AutoencoderHead.forward", "models.probes:AutoencoderHead.fit_scale"),
        "How many rare training examples does it need?",
        _reconstruction,
        (
            number("outside", "Component outside of the learned subspace", 6, 0, 20),
            number("threshold", "Error above which a text is an anomaly", 1, 0, 60),
        ),
    ),
)
