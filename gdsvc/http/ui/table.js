/* The table of pools. Only the rows on screen are elements: they are moved and rewritten as the table scrolls. */

const ROWS_BEYOND = 6; // kept above and below what is on screen, so that Tab and a quick wheel find rows there
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
const FLASH_SECS = 1.5;

/** One row of elements; shows whichever record it is given. */
class Row {
  #name = element("th", { scope: "row", role: "rowheader", class: "name" });
  #texts = Object.fromEntries(
    ["model", "region", "site", "namespace"].map((name) => [name, element("td", { role: "cell", class: name })]),
  );
  #frontend = element("a", { class: "mono" });
  #others = element("span", { class: "others" });
  #lease = new LeaseBar();
  why = element("button", { type: "button", class: "quiet" }, "Why");
  record = null;

  constructor() {
    const line = element("span", { class: "frontends-line" }, this.#frontend, this.#others);
    const frontends = element("td", { role: "cell", class: "frontends" }, line);
    const why = element("td", { role: "cell", class: "why" }, this.why);
    this.tr = element(
      "tr",
      { role: "row" },
      this.#name,
      ...Object.values(this.#texts),
      frontends,
      this.#lease.cell,
      why,
    );
  }

  show(record, index) {
    this.record = record;
    setAttribute(this.tr, "aria-rowindex", String(index + 2)); // the head is the first
    this.tr.classList.toggle("odd", index % 2 === 1);
    this.tr.classList.toggle("unconfirmed", !record.confirmed);
    this.#write(this.#name, record.shown.name);
    for (const [name, cell] of Object.entries(this.#texts)) this.#write(cell, record.shown[name]);
    const [frontend = null] = record.frontends;
    showUrl(this.#frontend, frontend, true);
    setAttribute(this.#frontend, "title", frontend && plain(frontend));
    setText(this.#others, record.frontends.length > 1 ? `+${record.frontends.length - 1}` : "");
    setAttribute(this.why, "aria-label", `Why ${plain(record.shown.name)}`);
    this.#lease.show(record);
    this.#flash(record);
  }

  tick() {
    this.#lease.tick();
  }

  /** Puts the row's controls into the order of Tab, or takes them out. */
  reachable(yes) {
    this.why.tabIndex = this.#frontend.tabIndex = yes ? 0 : -1;
  }

  #write(cell, value) {
    const text = value === "" ? NONE : plain(value);
    setText(cell, text);
    setAttribute(cell, "title", value === "" ? null : text);
  }

  #flash(record) {
    if (record.changedAt === null || record.flashedAt === record.changedAt) return;
    record.flashedAt = record.changedAt;
    if (now() - record.changedAt > FLASH_SECS || REDUCED_MOTION.matches) return;
    this.tr.animate([{ backgroundColor: "var(--flash)" }, {}], { duration: 1000 * FLASH_SECS, easing: "ease-out" });
  }
}

class PoolTable {
  #viewport;
  #table;
  #body;
  #above = element("tr", { "aria-hidden": "true", class: "space" }, element("td"));
  #below = element("tr", { "aria-hidden": "true", class: "space" }, element("td"));
  #view;
  #rows = new Map(); // by record: the rows that are elements now
  #spare = [];
  #rowHeight = 36;
  #first = 0; // index of the first row on screen
  #top = null; // its record
  #active = null; // the record whose controls Tab reaches
  #askWhy;

  /** `view` has the rows; `askWhy(record)` is called when somebody asks for the reasons of one. */
  constructor(viewport, view, askWhy) {
    this.#viewport = viewport;
    this.#table = viewport.querySelector("table");
    this.#body = this.#table.tBodies[0];
    this.#view = view;
    this.#askWhy = askWhy;
    this.#body.append(this.#above, this.#below);
    viewport.addEventListener("scroll", () => inNextFrame(this.#drawSoon), { passive: true });
    new ResizeObserver(() => this.#resized()).observe(viewport);
    this.#body.addEventListener("click", (event) => this.#clicked(event));
    this.#body.addEventListener("keydown", (event) => this.#pressed(event));
    this.#body.addEventListener("focusin", (event) => this.#focused(event));
  }

  #drawSoon = () => this.draw();

  /** The records on screen. */
  visible() {
    return this.#view.rows.slice(this.#first, this.#first + this.#fitting());
  }

  /** Draws after the view's rows changed; the first one on screen stays where it is. */
  refresh() {
    const index = this.#viewport.scrollTop > 0 && this.#top ? this.#view.rows.indexOf(this.#top) : -1;
    if (index >= 0 && index !== this.#first) {
      this.#stretch(this.#below, this.#view.rows.length); // or there may be no such place yet to scroll to
      this.#viewport.scrollTop += (index - this.#first) * this.#rowHeight;
    }
    this.draw();
  }

  /** Draws from the top after the order or the selection changed. */
  restart() {
    this.#viewport.scrollTop = 0;
    this.draw();
  }

  /** Makes the elements those of the rows on screen. */
  draw() {
    const rows = this.#view.rows;
    const last = Math.max(0, rows.length - this.#fitting());
    this.#first = Math.min(last, Math.floor(this.#viewport.scrollTop / this.#rowHeight));
    this.#top = rows[this.#first] ?? null;
    const start = Math.max(0, this.#first - ROWS_BEYOND);
    const end = Math.min(rows.length, this.#first + this.#fitting() + ROWS_BEYOND);
    const hadFocus = this.#release(new Set(rows.slice(start, end)));
    this.#place(rows, start, end);
    this.#stretch(this.#above, start);
    this.#stretch(this.#below, rows.length - end);
    setAttribute(this.#table, "aria-rowcount", String(rows.length + 1));
    if (hadFocus) this.#viewport.focus({ preventScroll: true });
  }

  /** Brings what runs with time up to now. */
  tick() {
    for (const row of this.#rows.values()) row.tick();
  }

  /** Draws the row of `record` anew, if it is on screen. */
  redraw(record) {
    this.#rows.get(record)?.show(record, this.#view.rows.indexOf(record));
  }

  /** Moves the focus to the row of `record`, or to the table where it is gone. */
  focus(record) {
    const index = this.#view.rows.indexOf(record);
    if (index < 0) this.#viewport.focus();
    else this.#goTo(index);
  }

  #fitting() {
    return Math.ceil(this.#viewport.clientHeight / this.#rowHeight) + 1;
  }

  #resized() {
    this.#rowHeight = Number.parseFloat(getComputedStyle(this.#table).getPropertyValue("--row")) || this.#rowHeight;
    inNextFrame(this.#drawSoon);
  }

  #stretch(space, count) {
    space.firstChild.style.height = `${count * this.#rowHeight}px`;
  }

  /** Takes out the rows of records that are not in `kept`; whether one of them had the focus. */
  #release(kept) {
    let hadFocus = false;
    for (const [record, row] of this.#rows) {
      if (kept.has(record)) continue;
      hadFocus ||= row.tr.contains(document.activeElement);
      row.tr.remove();
      this.#rows.delete(record);
      this.#spare.push(row);
    }
    return hadFocus;
  }

  #place(rows, start, end) {
    const placed = rows.slice(start, end);
    const reachable = placed.includes(this.#active) ? this.#active : this.#top;
    let before = this.#above;
    for (const [offset, record] of placed.entries()) {
      const row = this.#rows.get(record) ?? this.#spare.pop() ?? new Row();
      this.#rows.set(record, row);
      if (before.nextSibling !== row.tr) before.after(row.tr);
      row.show(record, start + offset);
      row.reachable(record === reachable);
      before = row.tr;
    }
  }

  #rowOf(event) {
    const tr = event.target.closest("tr");
    for (const row of this.#rows.values()) if (row.tr === tr) return row;
    return null;
  }

  #clicked(event) {
    const row = event.target.closest("button") ? this.#rowOf(event) : null;
    if (row) this.#askWhy(row.record);
  }

  #focused(event) {
    const row = this.#rowOf(event);
    if (!row || row.record === this.#active) return;
    this.#rows.get(this.#active)?.reachable(false);
    for (const other of this.#rows.values()) other.reachable(other === row);
    this.#active = row.record;
  }

  #pressed(event) {
    const step = STEPS[event.key];
    const row = this.#rowOf(event);
    if (!step || !row || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const index = this.#view.rows.indexOf(row.record) + step;
    this.#goTo(Math.max(0, Math.min(this.#view.rows.length - 1, index)));
  }

  /** Scrolls the row at `index` on screen and moves the focus to its button. */
  #goTo(index) {
    const record = (this.#active = this.#view.rows[index]);
    const [top, height] = [index * this.#rowHeight, this.#viewport.clientHeight - 2 * this.#rowHeight];
    const { scrollTop } = this.#viewport;
    if (top < scrollTop || top > scrollTop + height) this.#viewport.scrollTop = top < scrollTop ? top : top - height;
    this.draw();
    this.#rows.get(record)?.why.focus({ preventScroll: true });
  }
}
