/* Keeps one directory up to date: an EventSource, and polling of the list while that has no connection. */

const POLL_SECS = 3;
const POLL_TIMEOUT_MS = 10_000;
const REOPEN_SECS = [2, 30]; // after a refusal (an HTTP status), doubling; lost connections the browser restores
const STALE_SECS = 15; // without a sign of the service; its default lease: whatever the page shows may be gone by then

/**
 * What the page says of its connection. `signSecs`: since any sign of the service; `polledSecs`: since a list was read
 * by polling; `openedSecs`: since the page began to connect. Null: not yet.
 */
function connectionState({ paused, open, listed, signSecs, polledSecs, openedSecs }) {
  if (paused) return "paused";
  if ((signSecs ?? openedSecs) >= STALE_SECS) return "stale";
  if (open && listed) return "live";
  if (polledSecs !== null && polledSecs < 3 * POLL_SECS) return "polling";
  return listed ? "reconnecting" : "connecting";
}

/**
 * `{watch, list}` are paths; `on` has `snapshot(document, polled)`, `upserted(item)`, `removed(document)`, `sign()`,
 * `state()`. A stream that is paused remembers where it was and resumes from there.
 */
class Stream {
  #paths;
  #on;
  #source = null;
  #reopenTimer = 0;
  #pollTimer = 0;
  #reopenSecs = REOPEN_SECS[0];
  #etag = null;
  #openedAt = now();
  #signAt = null;
  #polledAt = null;
  #listed = false;
  lastId = "";
  lastEventAt = null;
  paused = false;

  constructor(paths, on) {
    this.#paths = paths;
    this.#on = on;
  }

  /** Opens the watch, resuming after the last event there was. */
  open() {
    this.close();
    if (this.paused) {
      [this.#openedAt, this.#signAt] = [now(), null]; // silence while nobody asked says nothing
      this.paused = false;
    }
    const since = this.lastId ? `?since=${encodeURIComponent(this.lastId)}` : "";
    const source = (this.#source = new EventSource(this.#paths.watch + since));
    source.addEventListener("open", () => this.#opened());
    source.addEventListener("error", () => this.#failed(source));
    source.addEventListener("resync", (event) => this.#received(event, (document) => this.#snapshot(document, false)));
    source.addEventListener("upserted", (event) => this.#received(event, this.#on.upserted));
    source.addEventListener("removed", (event) => this.#received(event, this.#on.removed));
  }

  close() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#reopenTimer);
    this.#stopPolling();
  }

  /** Gives the connection back, for as long as nobody looks: a browser has six per service, for all its tabs. */
  pause() {
    this.close();
    this.paused = true;
    this.#on.state();
  }

  /** A sign of life that did not come on the stream. */
  sign() {
    this.#signAt = now();
  }

  get state() {
    const since = (at) => (at === null ? null : now() - at);
    return connectionState({
      paused: this.paused,
      open: this.#source?.readyState === EventSource.OPEN,
      listed: this.#listed,
      signSecs: since(this.#signAt),
      polledSecs: since(this.#polledAt),
      openedSecs: since(this.#openedAt),
    });
  }

  get signSecs() {
    return this.#signAt === null ? null : now() - this.#signAt;
  }

  #opened() {
    this.#reopenSecs = REOPEN_SECS[0];
    this.#stopPolling();
    this.#etag = this.#polledAt = null;
    this.#signed();
  }

  #signed() {
    this.sign();
    this.#on.sign();
    this.#on.state();
  }

  #received(event, take) {
    let document;
    try {
      document = JSON.parse(event.data);
      take(document);
    } catch (error) {
      console.error("an event could not be read", error);
      return;
    }
    if (event.lastEventId) this.lastId = event.lastEventId;
    this.lastEventAt = now();
    this.#signed();
  }

  #snapshot(document, polled) {
    this.#on.snapshot(document, polled);
    this.#listed = true;
  }

  #failed(source) {
    if (source !== this.#source) return;
    if (source.readyState === EventSource.CLOSED) {
      const wait = this.#reopenSecs * (0.5 + Math.random());
      this.#reopenSecs = Math.min(2 * this.#reopenSecs, REOPEN_SECS[1]);
      clearTimeout(this.#reopenTimer);
      this.#reopenTimer = setTimeout(() => this.open(), 1000 * wait);
    }
    if (!this.#pollTimer) this.#pollSoon(0.3);
    this.#on.state();
  }

  #pollSoon(secs = POLL_SECS * (0.8 + 0.4 * Math.random())) {
    this.#pollTimer = setTimeout(() => this.#poll(), 1000 * secs);
  }

  #stopPolling() {
    clearTimeout(this.#pollTimer);
    this.#pollTimer = 0;
  }

  async #poll() {
    const timer = this.#pollTimer;
    try {
      const listed = await this.#fetchList();
      if (timer !== this.#pollTimer) return; // the stream is back, or paused
      if (listed) this.#snapshot(listed, true);
      this.#polledAt = now();
      this.#signed();
    } catch {
      this.#on.state();
    }
    if (timer === this.#pollTimer) this.#pollSoon();
  }

  /** The list, null where it has not changed since the last poll. Throws where there is none. */
  async #fetchList() {
    const response = await fetch(this.#paths.list, {
      cache: "no-store",
      headers: this.#etag ? { "If-None-Match": this.#etag } : {},
      signal: AbortSignal.timeout(POLL_TIMEOUT_MS),
    });
    if (response.status === 304) return null;
    if (!response.ok) throw new Error(`status ${response.status}`);
    const document = await response.json();
    this.#etag = response.headers.get("ETag");
    return document;
  }
}
