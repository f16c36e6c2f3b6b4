/* What the page knows of the members of one directory, by the rules for consumers of a list that may be incomplete. */

/** The names of the members in which two documents differ. */
function differing(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}

/** `known` with what `item` says of it: null, an empty list or nothing at all never unmakes what is known. */
function keepingKnown(known, item) {
  const silent = (value) => value === null || (Array.isArray(value) && !value.length);
  const told = Object.entries(item).filter(([name, value]) => !silent(value) || !(name in known));
  return { ...known, ...Object.fromEntries(told) };
}

/**
 * Records by id. `describe(item)` gives what a record holds of what the service sent; beside it a record has its `id`,
 * `confirmed`, false where an incomplete list did not have it, and `changedAt`, when the page heard of it as an event.
 */
class Members {
  #idOf;
  #describe;
  #touched = new Set();
  #gone = new Set();
  #complete = false; // as the newest list said of itself
  records = new Map();

  constructor(idOf, describe) {
    this.#idOf = idOf;
    this.#describe = describe;
  }

  /** Takes one item; `{record, change, members}` with change "new", "changed" or "same". */
  upsert(told, at = null) {
    const id = this.#idOf(told);
    const known = this.records.get(id);
    const item = known && !this.#complete ? keepingKnown(known.item, told) : told;
    const members = known ? differing(known.item, item) : [];
    const change = !known ? "new" : members.length ? "changed" : "same";
    const record = known ?? { id, changedAt: null, confirmed: false };
    if (change !== "same") Object.assign(record, this.#describe(item));
    if (change !== "same" || !record.confirmed) this.#touched.add(record);
    if (change !== "same" && at !== null) record.changedAt = at;
    record.confirmed = true;
    this.records.set(id, record);
    return { record, change, members };
  }

  /** Takes one out; the record, undefined where there was none. */
  remove(id) {
    const record = this.records.get(id);
    if (!record) return undefined;
    this.records.delete(id);
    this.#touched.delete(record);
    this.#gone.add(record);
    return record;
  }

  /** Takes a whole list: `{added, changed, removed}`, each a list of records. Only a complete one removes. */
  replace(items, complete) {
    const seen = new Set();
    const outcome = { added: [], changed: [], removed: [] };
    this.#complete = complete;
    for (const item of items) {
      const { record, change } = this.upsert(item);
      seen.add(record.id);
      if (change === "new") outcome.added.push(record);
      if (change === "changed") outcome.changed.push(record);
    }
    for (const record of [...this.records.values()]) {
      if (seen.has(record.id)) continue;
      if (complete) outcome.removed.push(this.remove(record.id));
      else this.#doubt(record);
    }
    return outcome;
  }

  /** How many are shown though the newest, incomplete list does not have them. */
  unconfirmed() {
    let count = 0;
    for (const record of this.records.values()) if (!record.confirmed) count += 1;
    return count;
  }

  /** What changed since the last call: `{touched, gone}`, sets of records. */
  take() {
    const taken = { touched: this.#touched, gone: this.#gone };
    this.#touched = new Set();
    this.#gone = new Set();
    return taken;
  }

  #doubt(record) {
    if (!record.confirmed) return;
    record.confirmed = false;
    this.#touched.add(record);
  }
}

/** The id under which the page keeps the pool of a PoolKey. */
function keyId(key) {
  return JSON.stringify([key.site_id, key.namespace, key.dgd_name]);
}

/** Of a PoolListing: what the columns show, what they sort by, and the text that the filter searches. */
function describePool(item) {
  const frontends = item.frontends ?? [];
  const shown = {
    name: item.key.dgd_name,
    model: item.model ?? "",
    region: item.location?.region ?? "",
    site: item.key.site_id,
    namespace: item.key.namespace,
  };
  const text = [...Object.values(shown), ...frontends].join("\n").toLowerCase();
  return { item, shown, frontends, sorting: { ...shown, frontends: frontends.length }, text };
}
