/* Text, numbers and elements as people read them. What a caller may have chosen reaches the page only as text. */

const NONE = "–";
const NUMBERS = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// Controls, direction controls, fillers and characters without width: they make one name look like another.
const UNSEEN = new RegExp(
  String.raw`[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e` +
    String.raw`\u2060-\u2069\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0000}-\u{e0fff}]`,
  "gu",
);

/** The text of `value`, at most `limit` characters, with unseen characters spelled out. */
function plain(value, limit = 300) {
  const text = String(value);
  const kept = text.length > limit ? text.slice(0, limit) + "…" : text;
  return kept.replace(UNSEEN, (it) => `⟨U+${it.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** An element with attributes and children; strings among the children become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

/** Writes only what differs, so that nothing is laid out again for an unchanged text. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or, with null, removes an attribute, only where it differs. */
function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** The address that a link to `url` may have: http and https only, no user in it. Null for anything else. */
function linkTarget(url) {
  if (!URL.canParse(url)) return null;
  const parsed = new URL(url);
  const plainWeb = parsed.protocol === "http:" || parsed.protocol === "https:";
  return plainWeb && !parsed.username && !parsed.password ? parsed.href : null;
}

/** Makes `anchor` show `url`, as a link where it may be one; `brief` leaves out the scheme http, which most have. */
function showUrl(anchor, url, brief = false) {
  const target = url === null ? null : linkTarget(url);
  const text = url === null ? NONE : plain(url);
  setText(anchor, brief && target?.startsWith("http:") ? text.slice(7) : text);
  setAttribute(anchor, "href", target);
  setAttribute(anchor, "target", target && "_blank");
  setAttribute(anchor, "rel", target && "noopener noreferrer");
}

function urlElement(url) {
  const anchor = element("a", { class: "mono" });
  showUrl(anchor, url);
  return anchor;
}

function counted(count, one, many = one + "s") {
  return `${NUMBERS.format(count)} ${count === 1 ? one : many}`;
}

function seconds(secs) {
  return secs < 10 ? `${secs.toFixed(1)} s` : `${Math.round(secs)} s`;
}

/** Whole units, rounded down: at least so long. */
function duration(secs) {
  if (secs < 100) return `${Math.max(0, Math.floor(secs))} s`;
  if (secs < 6000) return `${Math.floor(secs / 60)} min`;
  return `${Math.floor(secs / 3600)} h`;
}

function ago(secs) {
  return secs < 1 ? "just now" : `${duration(secs)} ago`;
}

/** The instant `stamp` (RFC 3339) on this browser's clock face, with the day where it is not today. */
function clockTime(stamp) {
  const instant = new Date(stamp);
  if (Number.isNaN(instant.getTime())) return plain(stamp, 40);
  const today = instant.toDateString() === new Date().toDateString();
  return today ? CLOCK.format(instant) : `${DAY.format(instant)}, ${CLOCK.format(instant)}`;
}

/** Seconds on a clock that only runs forwards. */
function now() {
  return performance.now() / 1000;
}
