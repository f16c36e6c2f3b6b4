/* What the page says of itself: connection, completeness, freshness; in chips, in notices, and aloud on a change. */

const STATES = {
  connecting: "Connecting",
  live: "Live",
  polling: "Polling",
  reconnecting: "Reconnecting",
  stale: "Stale",
  paused: "Paused",
};

const FRESH_STATES = new Set(["live", "polling"]); // in which what the page shows is what the service says

/** "pool-registrations (as of 10:00:00)", for each source that an incomplete list names. */
function sourceNames(sources) {
  return sources
    .map(({ name, as_of: asOf }) => plain(name, 100) + (asOf ? ` (as of ${clockTime(asOf)})` : ""))
    .join(", ");
}

/** Which of the lists are not complete, what the service waits for, what that means; null where all are complete. */
function incompleteNotice(lists) {
  const incomplete = Object.entries(lists).filter(([, { complete }]) => complete === false);
  if (!incomplete.length) return null;
  const names = incomplete.map(([name]) => name).join(" and ");
  const which = incomplete.length > 1 ? `The lists of ${names} are` : `The list of ${names} is`;
  const sources = incomplete.flatMap(([, list]) => list.sources);
  const waiting = sources.length ? ` The service waits for ${sourceNames(sources)}.` : "";
  const unconfirmed = incomplete.reduce((sum, [, list]) => sum + list.unconfirmed, 0);
  const known = counted(unconfirmed, "entry known from before is", "entries known from before are");
  const kept = unconfirmed ? ` ${known} kept as unconfirmed.` : "";
  return `${which} not complete: some that live may be missing.${waiting}${kept}`;
}

/** The words of the chip for completeness, and the state whose colours it has; what was so is not said to be so. */
function completenessOf({ state, pools: { complete } }) {
  if (complete === null) return ["Not listed yet", "connecting"];
  if (!FRESH_STATES.has(state)) return [complete ? "Was complete" : "Was incomplete", "connecting"];
  return complete ? ["Complete", "live"] : ["Incomplete", "polling"];
}

/** What is out of order, as sentences. */
function noticesOf({ state, signSecs, pools, routers }) {
  const said = [];
  if (state === "stale" && signSecs === null) said.push("The service has not answered yet. The page keeps trying.");
  else if (state === "stale")
    said.push(`No sign of the service for ${duration(signSecs)}. What is shown was known then; the page keeps trying.`);
  if (state === "polling")
    said.push("The event stream has no connection. The lists are read every few seconds instead.");
  return said.concat(incompleteNotice({ pools, routers }) ?? []);
}

/** What is said aloud: only what changes seldom is in it. */
function announcementOf({ state, pools, count }) {
  const list = pools.complete === null ? "" : `The list of pools is ${pools.complete ? "complete" : "not complete"}.`;
  return `Connection: ${STATES[state].toLowerCase()}. ${list}${state === "live" ? ` ${counted(count, "pool")}.` : ""}`;
}

class Status {
  #parts;
  #said = "";

  constructor(page) {
    const names = ["connection", "completeness", "freshness", "notices", "announcer"];
    this.#parts = Object.fromEntries(names.map((name) => [name, page.querySelector(`#${name}`)]));
  }

  /** `pools` and `routers` are `{complete, sources, unconfirmed}`, complete null before the first list. */
  draw(seen) {
    const { connection, completeness, freshness, notices } = this.#parts;
    document.documentElement.dataset.state = seen.state;
    setText(connection, STATES[seen.state]);
    setAttribute(connection, "data-state", seen.state);
    const [words, look] = completenessOf(seen);
    setText(completeness, words);
    setAttribute(completeness, "data-state", look);
    setText(freshness, seen.eventSecs === null ? "No event yet" : `Last event ${ago(seen.eventSecs)}`);
    const said = noticesOf(seen);
    remake(notices, said, () => said.map((text) => element("p", {}, text)));
    this.#announce(seen);
  }

  #announce(seen) {
    const key = `${seen.state} ${seen.pools.complete}`;
    if (key === this.#said || document.hidden) return;
    this.#said = key;
    setText(this.#parts.announcer, announcementOf(seen));
  }
}
