/* Small plots over the last minutes: a line, its range, and the same in words for those who do not see it. */

const SPAN_SECS = 300;
const HEIGHT = 40;
const WORDS_EVERY_SECS = 15; // a label that changes each second would be read out each second

/** A round number at or above `value`: 1, 2, 5, 10, 20, 50, … */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value);
}

/** The lowest and the highest value of the plot's axis. */
function axisOf(values, fromZero) {
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (fromZero) return [0, high > 0 ? roundUp(high) : 1];
  return low === high ? [Math.max(0, low - 1), high + 1] : [low, high];
}

class Plot {
  #line;
  #area;
  #svg;
  #texts;
  #name;
  #fromZero;
  #format;
  #samples = []; // {at, value}; a null value is a gap
  #wordsAt = -Infinity;

  /** `format(value)` writes a number; `fromZero` starts the axis at 0, else at the lowest value. */
  constructor(figure, { name, fromZero, format }) {
    this.#svg = figure.querySelector("svg");
    [this.#area, this.#line] = figure.querySelectorAll("path");
    this.#texts = Object.fromEntries(["value", "high", "low"].map((part) => [part, figure.querySelector(`.${part}`)]));
    this.#name = name;
    this.#fromZero = fromZero;
    this.#format = format;
  }

  /** Adds what holds at `at`, seconds; null where it is not known. */
  add(value, at) {
    this.#samples.push({ at, value });
    while (this.#samples[0].at < at - SPAN_SECS) this.#samples.shift();
  }

  draw(at) {
    const values = this.#samples.map((sample) => sample.value).filter((value) => value !== null);
    const [low, high] = axisOf(values, this.#fromZero);
    const last = this.#samples.at(-1)?.value ?? null;
    setText(this.#texts.value, last === null ? NONE : this.#format(last));
    setText(this.#texts.high, values.length ? this.#format(high) : "");
    setText(this.#texts.low, values.length ? this.#format(low) : "");
    const runs = this.#runs(at, low, high);
    setAttribute(this.#line, "d", runs.map((points) => `M${points.join("L")}`).join(""));
    setAttribute(this.#area, "d", this.#fromZero ? runs.map(this.#closed).join("") : "");
    if (at - this.#wordsAt >= WORDS_EVERY_SECS) this.#describe(values, last, at);
  }

  /** The points of each stretch without a gap. */
  #runs(at, low, high) {
    const runs = [[]];
    for (const sample of this.#samples) {
      const [x, y] = [SPAN_SECS - (at - sample.at), HEIGHT - 1 - ((sample.value - low) / (high - low)) * (HEIGHT - 2)];
      if (sample.value === null) runs.push([]);
      else runs.at(-1).push(`${x.toFixed(1)} ${y.toFixed(1)}`);
    }
    return runs.filter((points) => points.length > 1);
  }

  #closed = (points) => {
    const x = (point) => point.split(" ")[0];
    return `M${x(points[0])} ${HEIGHT}L${points.join("L")}L${x(points.at(-1))} ${HEIGHT}Z`;
  };

  #describe(values, last, at) {
    this.#wordsAt = at;
    const written = [Math.min(...values), Math.max(...values)].map(this.#format);
    const latest = last === null ? "not known" : this.#format(last);
    const range = values.length ? `now ${latest}, between ${written.join(" and ")}` : "nothing known yet";
    setAttribute(this.#svg, "aria-label", `${this.#name}, last 5 minutes: ${range}`);
  }
}

/** The samples of Prometheus text by name, all label sets of a name added up but those with `outcome="rejected"`. */
function sampleSums(text) {
  const sums = new Map();
  for (const [, name, labels, value] of text.matchAll(/^(\w+)(\{[^\n]*\})? (\S+)$/gm)) {
    if (labels?.includes('outcome="rejected"')) continue;
    sums.set(name, (sums.get(name) ?? 0) + Number(value));
  }
  return sums;
}
