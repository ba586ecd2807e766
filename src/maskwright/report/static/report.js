// Draws the charts of a report, again whenever the width of their place changes.

import { flow } from "./charts/flow.js";
import { histogram } from "./charts/histogram.js";
import { lines } from "./charts/lines.js";
import { scatter } from "./charts/scatter.js";
import { traces } from "./charts/series.js";
import { refill } from "./dom.js";

const KINDS = {
  lines: ({ series, baselines, options }, name) => {
    const measured = series.map(({ points, ...one }) => ({ ...one, xs: points.map(([x]) => x), ys: points.map(([, y]) => y) }));
    return lines(traces(measured, options.isLog), { ...options, baselines, name });
  },
  histogram: ({ edges, counts, marks, x }, name) => histogram(edges, counts, { name, marks, unit: x }),
  scatter: ({ points }, name) => scatter(points, { name }),
  flow,
};

for (const place of document.querySelectorAll("[data-chart]")) {
  const name = place.querySelector("p").textContent;
  const drawing = KINDS[place.dataset.chart](JSON.parse(place.querySelector("script").textContent), name);
  let drawnAt = 0;
  const show = () => {
    const width = Math.floor(place.clientWidth);
    if (!width || width === drawnAt) return;
    drawnAt = width;
    const made = drawing(width);
    made.setAttribute("role", "img");
    refill(place, made);
    if (place.scrollWidth > place.clientWidth) place.tabIndex = 0; // scrolled by keyboard, too
  };
  show();
  new ResizeObserver(show).observe(place);
}
