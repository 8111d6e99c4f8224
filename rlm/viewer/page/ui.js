// What all views share: how figures are written, and small parts of the page.

const { html, render, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } = htmPreact;

const plain = (value) => (typeof value === "string" ? value : value == null ? "" : JSON.stringify(value, null, 2));
const count = (value) => (value == null ? "–" : Number(value).toLocaleString("en-US"));
const plural = (value, word, several = `${word}s`) => `${count(value)} ${value === 1 ? word : several}`;

function dollars(value) {
  if (value == null) return "$ ?";
  if (value === 0) return "$0";
  return value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(value < 1 ? 3 : 2)}`;
}

function seconds(value) {
  if (value == null || !isFinite(value)) return "–";
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(value % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function short(value) {
  if (value == null) return "–";
  if (value < 1000) return String(value);
  if (value < 999_500) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)}M`;
}

function day(unix) {
  if (unix == null) return "–";
  const at = new Date(unix * 1000);
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

const percent = (part, whole) =>
  !whole || !part ? "0 %" : part / whole < 0.01 ? "< 1 %" : `${Math.floor((100 * part) / whole)} %`;

const nameOf = (node) => (node.kind === "run" ? "Run" : node.title || (node.kind === "part" ? "Part" : "Sub-RLM"));

// Load a piece of a run that never changes.
function usePiece(run, path) {
  const [state, setState] = useState({ value: null, error: null, key: null });
  const key = `${run} ${path}`;
  useEffect(() => {
    if (!run || !path) return undefined;
    let wanted = true;
    load(run, path).then(
      (value) => wanted && setState({ value, error: null, key }),
      (error) => wanted && setState({ value: null, error, key }),
    );
    return () => {
      wanted = false;
    };
  }, [key]);
  return state.key === key ? state : { value: null, error: null, key };
}

const Badge = ({ tone, title, children }) => html`<span class=${`badge ${tone || ""}`} title=${title}>${children}</span>`;

const TONES = { running: "live", "not found": "warn", stopped: "bad" };

function StateBadge({ run }) {
  return html`<${Badge} tone=${TONES[run.status]} title=${run.stop_reason || run.state}>${run.status}<//>`;
}

const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

function Waiting({ error }) {
  return error ? html`<p class="empty bad-text" role="alert">${error.message}</p>` : html`<p class="empty" aria-busy="true">Loading…</p>`;
}

// A long text: its first lines, and a button for the rest.
function Text({ text, lines = 14, code = false, tone = "" }) {
  const [isOpen, setOpen] = useState(false);
  const all = plain(text);
  const rows = all.split("\n");
  const isLong = rows.length > lines + 2 || all.length > lines * 160;
  const shown = isOpen || !isLong ? all : rows.slice(0, lines).join("\n").slice(0, lines * 160);
  return html`<div class=${`text ${tone}`}>
    <pre tabindex="0">${code ? html`<${Code} text=${shown} />` : shown}</pre>
    ${isLong &&
    html`<button class="more" onClick=${() => setOpen(!isOpen)}>
      ${isOpen ? "Show less" : `Show all (${rows.length > lines + 2 ? plural(rows.length, "line") : plural(all.length, "character")})`}
    </button>`}
  </div>`;
}

// The sections of a prompt as one bar. What was cut is hatched and listed.
function PromptBar({ sections, actions }) {
  if (!sections || !sections.length) return null;
  const total = sections.reduce((sum, one) => sum + Math.max(one.before, one.after), 0) || 1;
  const cut = sections.flatMap((one) => one.cut);
  return html`<div class="prompt-bar">
    <div class="stack" role="img" aria-label=${`Prompt: ${sections.map((one) => `${one.section} ${one.after} tokens`).join(", ")}`}>
      ${sections.map((one, index) => [
        one.after > 0 &&
          html`<i class=${`tone-${index % 8}`} style=${{ width: `${(100 * one.after) / total}%` }} title=${`${one.section}: ${count(one.after)} tokens`}></i>`,
        one.before > one.after &&
          html`<i class="cut" style=${{ width: `${(100 * (one.before - one.after)) / total}%` }} title=${`${one.section}: ${count(one.before - one.after)} tokens were cut`}></i>`,
      ])}
    </div>
    <ul class="legend">
      ${sections
        .filter((one) => one.before || one.after)
        .map(
          (one) => html`<li key=${one.section}>
            <i class=${`dot tone-${sections.indexOf(one) % 8}`}></i>${one.section} ${short(one.after)}${one.before > one.after &&
            html` <span class="bad-text">of ${short(one.before)}</span>`}
          </li>`,
        )}
    </ul>
    ${(cut.length > 0 || (actions || []).length > 0) &&
    html`<details><summary>What was cut (${count(cut.length + (actions || []).length)})</summary>
      <ul class="plain">${[...(actions || []), ...cut].map((line) => html`<li>${line}</li>`)}</ul>
    </details>`}
  </div>`;
}
