// Slices of scored rows: by label, length, vocabulary or cluster, and the confusions of gold and predicted classes.

const VOCABULARY = [[0, "every word is one token"], [0.1, "up to 10% of the words split"], [0.25, "10% to 25% of the words split"], [1, "over 25% of the words split"]];

export const SLICES = { label: "label", predicted: "prediction", length: "length", vocabulary: "words not in the vocabulary", cluster: "cluster" };

/** A row with the labels that were corrected. fixes: "line" or "line:word" to label. */
export function corrected(row, fixes) {
  const own = (word) => fixes[row.words.length ? `${row.line}:${word}` : String(row.line)];
  if (!row.pairs.length) {
    const gold = own(0) ?? row.gold;
    return { ...row, gold, right: gold === row.gold ? row.right : gold === row.predicted, isFixed: gold !== row.gold };
  }
  const pairs = row.pairs.map(([gold, predicted], index) => [own(index) ?? gold, predicted]);
  const isFixed = pairs.some(([gold], index) => gold !== row.pairs[index][0]);
  return { ...row, pairs, isFixed, right: pairs.every(([gold, predicted]) => gold === predicted) };
}

/** What is right or wrong in a row: its pairs of classes, or the row itself. */
export const unitsOf = (row) => (row.pairs.length ? row.pairs.map(([gold, predicted]) => ({ gold, predicted, right: gold === predicted })) : [{ gold: row.gold, predicted: row.predicted, right: row.right }]);

/** The function from a row to [part, units] pairs of a slice. rows: all rows, which set the bounds of lengths. */
export function partsBy(slice, rows) {
  if (slice === "label" || slice === "predicted") {
    const name = slice === "label" ? "gold" : "predicted";
    return (row) => Object.entries(Object.groupBy(unitsOf(row), (unit) => unit[name]));
  }
  if (slice === "cluster") return (row) => [[row.cluster ?? "all rows", unitsOf(row)]];
  if (slice === "vocabulary") return (row) => [[VOCABULARY.find(([most]) => row.split <= most + 1e-9)[1], unitsOf(row)]];
  const lengths = rows.map((row) => row.tokens).sort((one, other) => one - other);
  const bounds = [...new Set([0.25, 0.5, 0.75, 1].map((share) => lengths[Math.ceil(share * lengths.length) - 1]))];
  const named = bounds.map((most, index) => (index ? (bounds[index - 1] + 1 === most ? `${most} tokens` : `${bounds[index - 1] + 1} to ${most} tokens`) : `up to ${most} tokens`));
  return (row) => [[named[bounds.findIndex((most) => row.tokens <= most)], unitsOf(row)]];
}

/** The parts of a slice: name, rows, units, right units, mean loss; the worst first. */
export function tally(rows, parts) {
  const found = new Map();
  for (const row of rows) {
    for (const [name, units] of parts(row)) {
      const part = found.get(name) ?? { name, rows: 0, units: 0, right: 0, loss: 0 };
      part.rows += 1;
      part.units += units.length;
      part.right += units.filter((unit) => unit.right).length;
      part.loss += row.loss;
      found.set(name, part);
    }
  }
  return [...found.values()].map((part) => ({ ...part, loss: part.loss / part.rows })).sort((one, other) => one.right / one.units - other.right / other.units || other.units - one.units);
}

/** Counts by gold and predicted class: the classes with the most errors, at most `most`, and [gold][predicted]. */
export function confusion(rows, most = 16) {
  const counts = new Map();
  for (const row of rows) {
    for (const [gold, predicted] of row.pairs) {
      if (!counts.has(gold)) counts.set(gold, new Map());
      counts.get(gold).set(predicted, (counts.get(gold).get(predicted) ?? 0) + 1);
    }
  }
  const of = (gold, predicted) => counts.get(gold)?.get(predicted) ?? 0;
  const all = [...new Set([...counts.keys(), ...[...counts.values()].flatMap((own) => [...own.keys()])])].sort();
  const wrong = new Map(all.map((label) => [label, 0]));
  const pairs = [];
  for (const [gold, own] of counts) {
    for (const [predicted, count] of own) {
      if (gold === predicted) continue;
      pairs.push({ gold, predicted, count });
      wrong.set(gold, wrong.get(gold) + count);
      wrong.set(predicted, wrong.get(predicted) + count);
    }
  }
  const kept = new Set([...all].sort((one, other) => wrong.get(other) - wrong.get(one)).slice(0, most));
  const labels = all.filter((label) => kept.has(label));
  return { labels, all, counts: labels.map((gold) => labels.map((predicted) => of(gold, predicted))), pairs: pairs.sort((one, other) => other.count - one.count) };
}
