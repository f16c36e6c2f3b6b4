/* Joins the parts: the streams feed the members, the members feed the tables, the feed, the plots and the state. */

const METRICS_EVERY_MS = 3000;
const BARS_EVERY_MS = 250; // a bar of 60 pixels for 15 seconds moves by one: an animation would show no more
const BEHIND_SECS = 10; // the watch lags the service by a revision for this long: it is dead though it looks open,
const REOPEN_EVERY_SECS = 60; // and is opened anew, at most this often
const HIDDEN_MS = 60_000; // after that long out of sight the connections are given back
const LISTED_CHANGES = 20; // changes of a new list that the feed names one by one
const SHOWN_ROUTERS = 200;

const part = (id) => document.getElementById(id);

/** The name of a pool in the feed, where a line should stay one. */
function poolName(key) {
  return [key.site_id, key.namespace, key.dgd_name].map((name) => plain(name, 60)).join(" / ");
}

function routerName(id) {
  return `router ${plain(id, 60)}`;
}

/** A count, or a rate with a digit behind the point where it is small. */
function figure(value) {
  return Number.isInteger(value) || value >= 10 ? NUMBERS.format(Math.round(value)) : value.toFixed(1);
}

class Page {
  #pools = new Members((item) => keyId(item.key), describePool);
  #routers = new Members(
    (item) => item.id,
    (item) => ({ item }),
  );
  #lists = { pools: { complete: null, sources: [] }, routers: { complete: null, sources: [] } };
  #view = new View();
  #table = new PoolTable(part("viewport"), this.#view, (record) => this.#why.open(record));
  #why = new WhyPanel(part("why"), (record) => this.#table.focus(record));
  #feed = new Feed(part("feed"));
  #status = new Status(document);
  #streams;
  #plots;
  #state = "connecting";
  #ranked = 0; // leases that were known when the table was sorted by them
  #held = false; // by the button: nothing moves until it is pressed again
  #events = 0; // since the last tick
  #tickedAt = now();
  #registrations = null; // {total, at} of the last reading of the metrics
  #rate = null;
  #behind = { id: "", since: null, reopenedAt: -Infinity };
  #hiddenTimer = 0;

  constructor() {
    this.#streams = {
      pools: new Stream({ watch: "pools/watch", list: "pools" }, this.#takerOf("pools", this.#pools, poolName)),
      routers: new Stream(
        { watch: "routers/watch", list: "routers" },
        this.#takerOf("routers", this.#routers, routerName),
      ),
    };
    this.#plots = {
      pools: new Plot(part("plot-pools"), { name: "Pools", fromZero: false, format: figure }),
      rate: new Plot(part("plot-rate"), { name: "Registrations per second", fromZero: true, format: figure }),
      events: new Plot(part("plot-events"), { name: "Events per second", fromZero: true, format: figure }),
    };
    new LeaseReader(
      () => (this.#quiet() ? [] : this.#table.visible()),
      (record) => this.#table.redraw(record),
    );
    this.#listen();
  }

  start() {
    for (const stream of Object.values(this.#streams)) stream.open();
    setInterval(() => this.#tick(), 1000);
    setInterval(() => document.hidden || inNextFrame(this.#tickBars), REDUCED_MOTION.matches ? 1000 : BARS_EVERY_MS);
    this.#pollMetrics();
    this.#tick();
  }

  /** Whether the service is out of reach, or nobody looks: nothing is asked for the rows then. */
  #quiet() {
    return document.hidden || !FRESH_STATES.has(this.#state);
  }

  #listen() {
    part("filter").addEventListener("input", () => inNextFrame(this.#filter));
    part("hold").addEventListener("click", () => this.#hold());
    for (const button of document.querySelectorAll("button[data-sort]"))
      button.addEventListener("click", () => this.#sort(button.dataset.sort));
    document.addEventListener("visibilitychange", () => this.#seenOrNot());
    this.#showSort();
  }

  /** What a stream calls: `list` names the directory, `name(key)` writes the key of a member. */
  #takerOf(list, members, name) {
    const keyOf = (item) => item.key ?? item.id;
    const taking = (take) => (sent) => {
      this.#events += 1;
      take(sent);
      inNextFrame(this.#draw);
    };
    return {
      snapshot: taking((listed) => this.#snapshot(list, members, listed, (record) => name(keyOf(record.item)))),
      upserted: taking((item) => {
        const { change, members: differ } = members.upsert(item, now());
        if (change === "same") return;
        const detail = change === "changed" ? differ.map((it) => plain(it, 40)).join(", ") : "";
        this.#feed.add(change, name(keyOf(item)), detail);
      }),
      removed: taking(({ key, id }) => {
        const record = members.remove(key ? keyId(key) : id);
        if (record) this.#feed.add("left", name(key ?? id));
      }),
      sign: () => Object.values(this.#streams).forEach((stream) => stream.sign()),
      state: () => inNextFrame(this.#drawState),
    };
  }

  #snapshot(list, members, listed, name) {
    const first = this.#lists[list].complete === null;
    const { added, changed, removed } = members.replace(listed[list], listed.complete);
    this.#lists[list] = { complete: listed.complete, sources: listed.sources ?? [] };
    const changes = added.length + changed.length + removed.length;
    const counts = first ? {} : { new: added.length, changed: changed.length, left: removed.length };
    if (!first && changes <= LISTED_CHANGES) {
      added.forEach((record) => this.#feed.add("new", name(record)));
      changed.forEach((record) => this.#feed.add("changed", name(record)));
      removed.forEach((record) => this.#feed.add("left", name(record)));
    }
    const said = Object.entries(counts).flatMap(([what, count]) => (count ? [`${NUMBERS.format(count)} ${what}`] : []));
    const size = counted(listed[list].length, list.slice(0, -1));
    this.#feed.add("list", [size, listed.complete ? "complete" : "incomplete", ...said].join(", "));
  }

  #draw = () => {
    this.#drawState();
    if (this.#held) return;
    this.#view.update(this.#pools.take());
    this.#table.refresh();
    this.#drawRouters();
    this.#drawCounts();
    this.#feed.draw();
  };

  #drawState = () => {
    const { pools, routers } = this.#streams;
    const ages = [pools, routers].map((stream) => stream.lastEventAt).filter((at) => at !== null);
    const state = pools.state;
    if (state !== this.#state && this.#state !== "connecting") this.#feed.add("page", STATES[state].toLowerCase());
    this.#state = state;
    this.#status.draw({
      state,
      signSecs: pools.signSecs,
      eventSecs: ages.length ? now() - Math.max(...ages) : null,
      count: this.#pools.records.size,
      pools: { ...this.#lists.pools, unconfirmed: this.#pools.unconfirmed() },
      routers: { ...this.#lists.routers, unconfirmed: this.#routers.unconfirmed() },
    });
    const mark = state === "live" ? "" : `(${STATES[state].toLowerCase()}) `;
    document.title = `${mark}${counted(this.#pools.records.size, "pool")} · gdsvc`;
    setText(part("routers-state"), routers.state === state ? "" : STATES[routers.state]);
  };

  #drawRouters() {
    this.#routers.take();
    const shown = [...this.#routers.records.values()]
      .slice(0, SHOWN_ROUTERS)
      .map(({ item, confirmed }) => ({ ...item, confirmed }));
    remake(part("routers-rows"), shown, () =>
      shown.map(({ id, url, confirmed }) => {
        const name = element("th", { scope: "row", role: "rowheader" }, plain(id));
        const address = element("td", { role: "cell" }, urlElement(url));
        return element("tr", { role: "row", class: confirmed ? "" : "unconfirmed" }, name, address);
      }),
    );
    const count = this.#routers.records.size;
    setText(part("routers-count"), NUMBERS.format(count));
    const none = this.#lists.routers.complete === null ? "Not listed yet." : "No router is listed.";
    setText(
      part("routers-note"),
      count > SHOWN_ROUTERS ? `and ${NUMBERS.format(count - SHOWN_ROUTERS)} more` : count ? "" : none,
    );
  }

  #drawCounts() {
    const [shown, all] = [this.#view.rows.length, this.#pools.records.size];
    setText(part("pools-count"), NUMBERS.format(all));
    const said = this.#view.filtered ? [`${NUMBERS.format(shown)} of ${NUMBERS.format(all)} match`] : [];
    if (this.#view.column === "lease") said.push(`sorted by the ${counted(this.#ranked, "lease")} known then`);
    setText(part("shown"), said.join("; "));
    const none = this.#lists.pools.complete === null ? "Not listed yet." : "No pool is listed.";
    setText(part("pools-note"), shown ? "" : all ? "No pool matches the filter." : none);
  }

  #filter = () => {
    this.#view.filter(part("filter").value, this.#pools.records.values());
    this.#pools.take();
    this.#table.restart();
    this.#drawCounts();
  };

  #sort(column) {
    if (column === "lease") this.#rankLeases();
    this.#view.sortBy(column);
    this.#table.restart();
    this.#showSort();
    this.#drawCounts();
  }

  /** Leases run all the time: their order is the one of the moment at which it was asked for, of those known then. */
  #rankLeases() {
    this.#ranked = 0;
    for (const record of this.#pools.records.values()) {
      const left = (record.lease?.endsAt ?? 0) - now();
      record.sorting.lease = left > 0 ? left : "";
      this.#ranked += Number(left > 0);
    }
  }

  #showSort() {
    for (const button of document.querySelectorAll("button[data-sort]")) {
      const sorted = button.dataset.sort === this.#view.column;
      const order = this.#view.descending ? "descending" : "ascending";
      setAttribute(button.closest("th"), "aria-sort", sorted ? order : null);
    }
  }

  #hold() {
    this.#held = !this.#held;
    setAttribute(part("hold"), "aria-pressed", String(this.#held));
    inNextFrame(this.#draw);
  }

  #seenOrNot() {
    clearTimeout(this.#hiddenTimer);
    const streams = Object.values(this.#streams);
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => streams.forEach((stream) => stream.pause()), HIDDEN_MS);
      return;
    }
    streams.filter((stream) => stream.paused).forEach((stream) => stream.open());
    inNextFrame(this.#draw);
  }

  #tickBars = () => this.#table.tick();

  #tick() {
    const at = now();
    const known = FRESH_STATES.has(this.#state);
    this.#plots.pools.add(known ? this.#pools.records.size : null, at);
    this.#plots.rate.add(this.#rate, at);
    this.#plots.events.add(!known ? null : this.#events / Math.max(0.5, at - this.#tickedAt), at);
    this.#events = 0;
    this.#tickedAt = at;
    if (document.hidden) return;
    this.#drawState();
    if (!this.#held) this.#feed.draw();
    for (const plot of Object.values(this.#plots)) plot.draw(at);
  }

  async #pollMetrics() {
    if (!this.#streams.pools.paused) {
      try {
        const response = await fetch("metrics", { cache: "no-store", signal: AbortSignal.timeout(METRICS_EVERY_MS) });
        if (!response.ok) throw new Error(`status ${response.status}`);
        this.#measured(sampleSums(await response.text()));
      } catch {
        this.#rate = this.#registrations = null;
      }
    }
    setTimeout(() => this.#pollMetrics(), METRICS_EVERY_MS);
  }

  #measured(sums) {
    Object.values(this.#streams).forEach((stream) => stream.sign());
    const total = sums.get("gdsvc_registrations_total");
    const [before, at] = [this.#registrations, now()];
    this.#registrations = total === undefined ? null : { total, at };
    this.#rate = before && total >= before.total ? (total - before.total) / (at - before.at) : null;
    this.#compareRevision(sums.get("gdsvc_revision"));
  }

  /** A connection may look open and bring nothing: the metrics tell how far the service is. */
  #compareRevision(revision) {
    const id = this.#streams.pools.lastId;
    const behind = this.#behind;
    const isBehind = this.#state === "live" && revision > Number(id.split("-")[1]);
    if (!isBehind || id !== behind.id || behind.since === null) {
      behind.since = isBehind ? now() : null;
      behind.id = id;
    } else if (now() - behind.since > BEHIND_SECS && now() - behind.reopenedAt > REOPEN_EVERY_SECS) {
      behind.reopenedAt = now();
      this.#streams.pools.open();
    }
  }
}

new Page().start();
