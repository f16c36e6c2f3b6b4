/* The last events, newest first. */

const KEPT = 100;

class Feed {
  #list;
  #waiting = [];

  constructor(list) {
    this.#list = list;
  }

  /** Adds an event: `kind` is one of the style sheet's, `subject` what it is about, `detail` what became of it. */
  add(kind, subject, detail = "") {
    this.#waiting.push({ kind, subject, detail, at: new Date() });
    if (this.#waiting.length > KEPT) this.#waiting.shift();
  }

  get waiting() {
    return this.#waiting.length;
  }

  /** Shows what was added since the last time. */
  draw() {
    if (!this.#waiting.length) return;
    this.#list.prepend(...this.#waiting.reverse().map((entry) => this.#item(entry)));
    this.#waiting = [];
    while (this.#list.children.length > KEPT) this.#list.lastChild.remove();
  }

  #item({ kind, subject, detail, at }) {
    return element(
      "li",
      {},
      element("time", { datetime: at.toISOString() }, CLOCK.format(at)),
      element("span", { class: `kind ${kind}` }, kind),
      element("span", { class: "subject" }, subject, element("span", { class: "detail" }, detail && ` ${detail}`)),
    );
  }
}
