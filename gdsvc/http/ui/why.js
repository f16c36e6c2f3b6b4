/* The panel that says why a pool is listed or not: the explain document as sentences, kept up to date while open. */

const ASK_AGAIN_MS = 2000;
const SHOWN = 50; // of a list of any length

/** The first of `items`, and in words how many more there are. */
function firstOf(items, write) {
  const shown = items.slice(0, SHOWN).map(write);
  return items.length > SHOWN ? [...shown, `and ${NUMBERS.format(items.length - SHOWN)} more`] : shown;
}

const STAMP = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** `reason` as a sentence behind the verdict, which need not be said twice; instants on this browser's clock face. */
function reasonSentence(reason) {
  const said = plain(reason ?? "", 1000)
    .replace(/^listed: /, "")
    .replace(STAMP, clockTime);
  return said && said[0].toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
}

function leaseSentence(lease) {
  if (!lease) return "No lease counts for it.";
  const [age, left] = [seconds(lease.age_secs), seconds(Math.max(0, lease.remaining_secs))];
  return `Its lease was last renewed ${age} ago and ends in ${left} unless it is renewed again.`;
}

function registrationSentences({ count, last_from: from, conflicts }) {
  if (!count) return ["It has not registered here."];
  const said = [`It has registered ${counted(count, "time")}${from ? `, last from ${plain(from, 100)}` : ""}.`];
  if (conflicts) said.push(`Its relays disagreed ${counted(conflicts, "time")}: two of them send different facts.`);
  return said;
}

function sourceSentence({ name, complete, as_of: asOf, detail }) {
  const state = complete ? "is complete" : "is not complete";
  const since = asOf ? `, as of ${clockTime(asOf)}` : "";
  return `${plain(name, 100)} ${state}${since}${detail ? `: ${plain(detail)}` : "."}`;
}

/** History, the newest first. */
function newestFirst(history) {
  return [...history].reverse().sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}

/** A value as text; beyond 2^53 a browser has rounded an integer on reading it, and says so. */
function valueText(value) {
  if (typeof value === "object") return JSON.stringify(value);
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? `about ${value}` : value;
}

/** The facts of a listing as pairs of a name and a list of texts or elements. */
function factsOf(item) {
  const { key, id, model, location, frontends, capacity, capabilities, relay_identities: relays, ...others } = item;
  const pairs = (object) => Object.entries(object ?? {}).filter(([, value]) => value !== null);
  const written = ([name, value]) => `${plain(name, 60)}: ${plain(valueText(value))}`;
  return [
    ["Model", model == null ? [] : [plain(model, 1000)]],
    ["Location", pairs(location).map(written)],
    ["Frontends", firstOf(frontends ?? [], urlElement)],
    ["Capacity", pairs(capacity).map(written)],
    ["Capabilities", firstOf(capabilities ?? [], (text) => plain(text))],
    ["Relays", firstOf(relays ?? [], (text) => plain(text))],
    ["Further members", firstOf(pairs(others), written)],
    ["Pool id", [plain(id)]],
  ].filter(([, values]) => values.length);
}

/** Replaces the children of `node` by what `make()` gives, unless `source` is what it was made of last. */
function remake(node, source, make) {
  const written = JSON.stringify(source);
  if (node.madeOf === written) return;
  node.madeOf = written;
  node.replaceChildren(...make());
}

class WhyPanel {
  #dialog;
  #parts;
  #closed;
  #record = null;
  #timer = 0;
  #asking = 0; // one for each opening: an answer to an earlier one is not shown, and asks no more

  /** `closed(record)` is called after the panel closed, for the focus to go back. */
  constructor(dialog, closed) {
    this.#dialog = dialog;
    this.#closed = closed;
    const names = ["title", "where", "verdict", "reason", "sentences", "sources", "history", "facts"];
    this.#parts = Object.fromEntries(names.map((name) => [name, dialog.querySelector(`[data-part=${name}]`)]));
    dialog.addEventListener("close", () => this.#left());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
    });
  }

  open(record) {
    this.#record = record;
    setText(this.#parts.title, plain(record.shown.name));
    setText(this.#parts.where, `${plain(record.shown.site)} / ${plain(record.shown.namespace)}`);
    this.#clear("Asking the service …");
    this.#facts(record.item);
    this.#dialog.showModal();
    this.#ask(record, ++this.#asking);
  }

  #left() {
    clearTimeout(this.#timer);
    const record = this.#record;
    this.#record = null;
    this.#asking += 1;
    this.#closed(record);
  }

  async #ask(record, asking) {
    const at = now();
    try {
      const explained = await fetchExplain(record.item.key);
      if (asking !== this.#asking) return;
      record.lease = leaseReading(explained, at);
      if (explained) this.#show(explained);
      else this.#clear("The service has never heard of this pool, or no longer remembers it.", "unknown");
    } catch (error) {
      if (asking !== this.#asking) return;
      const reason =
        error.name === "TypeError" || error.name === "TimeoutError" ? "the service does not answer" : error.message;
      this.#clear(`There is no explanation now: ${reason}. Trying again.`, "unknown");
    }
    this.#facts(record.item);
    this.#timer = setTimeout(() => this.#ask(record, asking), ASK_AGAIN_MS);
  }

  #show({ listed, reason, lease, registrations, sources, history }) {
    const { verdict, sentences } = this.#parts;
    this.#verdict(listed ? "listed" : "not listed", reasonSentence(reason));
    verdict.classList.toggle("listed", Boolean(listed));
    const said = registrationSentences(registrations ?? {});
    if (!/\blease\b/.test(reason)) said.unshift(leaseSentence(lease)); // the service's own reasons speak of it
    remake(sentences, said, () => said.map((text) => element("p", {}, text)));
    this.#list("sources", sources ?? [], (source) => element("li", {}, sourceSentence(source)));
    this.#list("history", newestFirst(history ?? []), ({ at, event, cause }) => {
      const cells = [element("time", {}, clockTime(at)), element("span", { class: "event" }, plain(event, 60))];
      return element("li", {}, ...cells, element("span", { class: "cause" }, cause ? plain(cause) : ""));
    });
  }

  #clear(reason, verdict = "") {
    this.#verdict(verdict, reason);
    this.#parts.verdict.classList.remove("listed");
    remake(this.#parts.sentences, null, () => []);
    for (const name of ["sources", "history"]) this.#list(name, [], () => null);
  }

  #verdict(verdict, reason) {
    setText(this.#parts.verdict, verdict);
    this.#parts.verdict.hidden = !verdict;
    setText(this.#parts.reason, reason);
  }

  #list(name, items, write) {
    remake(this.#parts[name], items, () => items.slice(0, 2 * SHOWN).map(write));
    this.#parts[name].closest("section").hidden = !items.length;
  }

  #facts(item) {
    remake(this.#parts.facts, item, () =>
      factsOf(item).flatMap(([name, values]) => [
        element("dt", {}, name),
        ...values.map((value) => element("dd", {}, value)),
      ]),
    );
  }
}
