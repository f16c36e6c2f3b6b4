/* How long leases still run. Lists do not say it; the explain document does, so it is read for the rows on screen, some
   each second. Renewals are not events: between two readings the page knows only how long a lease runs at least. */

const READ_EVERY_MS = 250;
const READ_AGAIN_SECS = 4;
const EXPLAIN_TIMEOUT_MS = 5000;
const FAILURES_IN_A_ROW = 3; // then the service has no explanations, or too much to do,
const REST_SECS = 30; // and is left alone for this long
const LOW = 1 / 3; // of a lease, below which its bar changes colour: a pool that beats in time never gets there

const namesOf = (key) => [key.site_id, key.namespace, key.dgd_name];

/** Whether a browser can ask for the pool of `key`: it takes these names out of a path, also when they are encoded. */
function explainable(key) {
  return !namesOf(key).some((name) => name === "." || name === "..");
}

/** The explain document of the pool of `key`; null where the service does not know it. Throws where there is none. */
async function fetchExplain(key) {
  if (!explainable(key)) throw new Error("a browser cannot ask for a pool of this name");
  const response = await fetch(`pools/${namesOf(key).map(encodeURIComponent).join("/")}/explain`, {
    cache: "no-store",
    signal: AbortSignal.timeout(EXPLAIN_TIMEOUT_MS),
  });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`the service answered with status ${response.status}`);
  return response.json();
}

/**
 * What an explain document asked for at `at` says of the lease: when it ends at the earliest and its whole length, both
 * null where that is not known; `none` where the pool is known and has no lease (slices alone may keep it listed).
 */
function leaseReading(explained, at) {
  const lease = explained?.lease ?? null;
  if (!lease) return { at, endsAt: null, total: null, none: explained !== null };
  return { at, endsAt: at + lease.remaining_secs, total: lease.age_secs + lease.remaining_secs, none: false };
}

/** Reads the leases of `visible()` in turn, the one read longest ago first; tells each reading to `read(record)`. */
class LeaseReader {
  #visible;
  #read;
  #busy = false;
  #failures = 0;
  #restsUntil = 0;

  constructor(visible, read) {
    this.#visible = visible;
    this.#read = read;
    setInterval(() => this.#step(), READ_EVERY_MS);
  }

  async #step() {
    if (this.#busy || now() < this.#restsUntil) return;
    const record = this.#next();
    if (!record) return;
    this.#busy = true;
    const at = now();
    record.leaseAskedAt = at; // whatever comes of it: a pool that cannot be explained must not hold up the others
    try {
      record.lease = leaseReading(await fetchExplain(record.item.key), at);
      this.#failures = 0;
      this.#read(record);
    } catch {
      this.#failures += 1;
      if (this.#failures >= FAILURES_IN_A_ROW) this.#restsUntil = now() + REST_SECS;
    }
    this.#busy = false;
  }

  #next() {
    const due = now() - READ_AGAIN_SECS;
    const askedAt = (record) => record.leaseAskedAt ?? -1;
    return this.#visible()
      .filter((record) => record.confirmed && explainable(record.item.key) && askedAt(record) < due)
      .reduce((oldest, record) => (oldest && askedAt(oldest) <= askedAt(record) ? oldest : record), null);
  }
}

/** The lease cell of a row: a bar that runs down, and the seconds that are left at least. */
class LeaseBar {
  #fill = element("span", { class: "fill" });
  #text = element("span", { class: "left" });
  #record = null;

  constructor() {
    const bar = element("span", { class: "bar", "aria-hidden": "true" }, this.#fill);
    this.cell = element("td", { role: "cell", class: "lease" }, bar, this.#text);
  }

  show(record) {
    this.#record = record;
    this.tick();
  }

  /** Brings bar and text up to now. */
  tick() {
    const { confirmed, lease } = this.#record;
    const left = confirmed && lease?.endsAt != null ? lease.endsAt - now() : 0;
    const share = left > 0 ? Math.min(1, left / lease.total) : 0;
    setText(this.#text, this.#words(left));
    setAttribute(this.cell, "class", share === 0 ? "lease" : share < LOW ? "lease known low" : "lease known");
    const length = `scaleX(${share.toFixed(2)})`;
    if (this.#fill.style.transform !== length) this.#fill.style.transform = length;
  }

  #words(left) {
    if (!this.#record.confirmed) return "unconfirmed";
    if (this.#record.lease?.none) return "none";
    return left > 0 ? duration(left) : NONE;
  }
}
