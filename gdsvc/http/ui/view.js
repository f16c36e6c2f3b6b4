/* Which records are shown and in which order. Knows no elements. */

const COLLATOR = new Intl.Collator("en", { numeric: true });
const SORT_ANEW_FROM = 64; // records that enter at once; fewer are put in their places one by one

/** Orders by `column`, absent values last whatever the direction, ties by id so that the order is total. */
function comparator(column, descending) {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const [x, y] = [a.sorting[column] ?? "", b.sorting[column] ?? ""];
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1;
    const order = typeof x === "number" ? x - y : COLLATOR.compare(x, y);
    return sign * order || COLLATOR.compare(a.id, b.id) || (a.id < b.id ? -1 : Number(a.id > b.id));
  };
}

class View {
  #terms = [];
  #compare;
  rows = []; // records, in the order shown
  column = "name";
  descending = false;

  constructor() {
    this.#compare = comparator(this.column, this.descending);
  }

  /** Sorts by `column`; by the one it is sorted by already: the other way round. */
  sortBy(column) {
    this.descending = column === this.column && !this.descending;
    this.column = column;
    this.#compare = comparator(column, this.descending);
    this.rows.sort(this.#compare);
  }

  /** Shows of `records` those that have every word of `text` in some column. */
  filter(text, records) {
    this.#terms = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.rows = [...records].filter((record) => this.#matches(record)).sort(this.#compare);
  }

  get filtered() {
    return this.#terms.length > 0;
  }

  /** Brings the rows up to date after `touched` changed or came and `gone` went. */
  update({ touched, gone }) {
    if (!touched.size && !gone.size) return;
    this.rows = this.rows.filter((record) => !touched.has(record) && !gone.has(record));
    const entering = [...touched].filter((record) => this.#matches(record));
    if (entering.length < SORT_ANEW_FROM) entering.forEach((record) => this.#insert(record));
    else this.rows = this.rows.concat(entering).sort(this.#compare);
  }

  #matches(record) {
    return this.#terms.every((term) => record.text.includes(term));
  }

  #insert(record) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(this.rows[middle], record) < 0) low = middle + 1;
      else high = middle;
    }
    this.rows.splice(low, 0, record);
  }
}
