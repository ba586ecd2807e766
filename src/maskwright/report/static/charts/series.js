// Curves as they are drawn: smoothed lines over the measured ones, means over seeds.

const SMOOTH_FROM = 40; // points; shorter lines are not smoothed
const KERNEL_SHARE = 32; // standard deviation of the smoothing kernel: points / KERNEL_SHARE

/**
 * series: [{ name, xs, ys, color, smooth }] with finite values in ascending x; those of one name are seeds of one experiment.
 * smooth: whether to smooth, by default long lines. Returns [{ name, xs, ys, color, seeds, behind }]: the smoothed line or
 * the mean of the seeds, and thin lines behind it.
 */
export function traces(series, isLog = false) {
  const names = [...new Set(series.map((one) => one.name))];
  return names.map((name, place) => {
    const own = series.filter((one) => one.name === name && one.xs.length);
    const drawn = own.map((one) => ((one.smooth ?? one.xs.length >= SMOOTH_FROM) && one.xs.length > 2 ? smoothed(one, isLog) : one));
    const behind = own.length > 1 ? drawn : own.filter((one, index) => one !== drawn[index]);
    return { name, color: own[0]?.color ?? place, seeds: own.length, behind, ...(own.length > 1 ? mean(drawn) : { xs: drawn[0]?.xs ?? [], ys: drawn[0]?.ys ?? [] }) };
  });
}

/**
 * Local linear regression with Gaussian weights over the index of the points. Unlike a moving average it is not biased at
 * the ends (Fan and Gijbels 1996, chapter 3). On a logarithmic axis the logarithms are smoothed.
 */
function smoothed({ xs, ys }, isLog) {
  const heights = isLog ? ys.map(Math.log) : ys;
  const deviation = Math.max(xs.length / KERNEL_SHARE, 1);
  const reach = Math.min(Math.floor(3.5 * deviation), xs.length - 1);
  const smooth = heights.map((_, place) => {
    const sums = [0, 0, 0, 0, 0]; // of w, w d, w d d, w y, w d y
    for (let other = Math.max(place - reach, 0); other <= Math.min(place + reach, xs.length - 1); other += 1) {
      const offset = other - place;
      const weight = Math.exp(-0.5 * (offset / deviation) ** 2);
      [1, offset, offset * offset, heights[other], offset * heights[other]].forEach((value, index) => (sums[index] += weight * value));
    }
    return (sums[2] * sums[3] - sums[1] * sums[4]) / (sums[0] * sums[2] - sums[1] ** 2);
  });
  return { xs, ys: isLog ? smooth.map(Math.exp) : smooth };
}

/** The mean of several lines where all are defined, at the x values of the longest. */
function mean(lines) {
  const longest = lines.reduce((best, one) => (one.xs.length > best.xs.length ? one : best));
  const xs = longest.xs.filter((x) => lines.every((one) => one.xs[0] <= x && x <= one.xs.at(-1)));
  if (!xs.length) return { xs: longest.xs, ys: longest.ys };
  return { xs, ys: xs.map((x) => lines.reduce((sum, one) => sum + valueAt(one, x), 0) / lines.length) };
}

/** The height of a line at x, between two points linearly; null outside of it. */
export function valueAt({ xs, ys }, x) {
  const next = xs.findIndex((own) => own >= x);
  if (next < 0 || (next === 0 && xs[0] > x)) return null;
  if (xs[next] === x) return ys[next];
  return ys[next - 1] + ((ys[next] - ys[next - 1]) * (x - xs[next - 1])) / (xs[next] - xs[next - 1]);
}
