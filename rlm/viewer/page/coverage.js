// The input as a bar: what was searched, read, sent to children, answered, failed and cited.

const LANES = [
  ["scanned", "searched", "A search by code passed over it"],
  ["read", "read", "A block of the root got this text"],
  ["sent", "sent", "A child got this text"],
  ["answered", "answered", "A child answered about it"],
  ["failed", "failed", "The child that got it failed"],
  ["cited", "cited", "The answer cites it"],
];

// Neighbouring stretches of one fill become one rectangle.
function runs(fills) {
  const found = [];
  for (let at = 0; at < fills.length; ) {
    let end = at + 1;
    while (end < fills.length && fills[end] === fills[at]) end++;
    if (fills[at]) found.push([at, end - at, fills[at]]);
    at = end;
  }
  return found;
}

function Lane({ name, fills, buckets }) {
  const parts = useMemo(() => runs(fills), [fills]);
  return html`<svg class="lane" viewBox=${`0 0 ${buckets} 1`} preserveAspectRatio="none" aria-hidden="true">
    ${parts.map(([at, width, fill]) => html`<rect x=${at} y="0" width=${Math.max(width, buckets / 400)} height="1" class=${`lane-${name}`} opacity=${0.25 + fill / 12} />`)}
  </svg>`;
}

function Strip({ coverage, onPlace, small }) {
  if (!coverage.chars) return html`<${Empty}>This run has no input.<//>`;
  const shown = LANES.filter(([lane]) => !small || coverage.totals[lane] > 0);
  const open = (event) => {
    if (!onPlace) return;
    const box = event.currentTarget.getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * coverage.chars);
    onPlace(Math.max(0, Math.min(coverage.chars - 1, at)));
  };
  return html`<div class="strip" role="table" aria-label="Coverage of the input">
    ${shown.map(
      ([lane, label, hint]) => html`<div class="strip-row" role="row" key=${lane}>
        <span class="strip-name" role="rowheader" title=${hint}>${label}</span>
        <div class=${`track ${onPlace ? "live" : ""}`} role="cell" onClick=${open} title=${onPlace ? "Click to read the text here" : hint}>
          <${Lane} name=${lane} fills=${coverage.fills[lane]} buckets=${coverage.buckets} />
        </div>
        <span class="strip-share" role="cell">${percent(coverage.totals[lane], coverage.chars)}</span>
      </div>`,
    )}
  </div>`;
}

const SPAN = 1_500;

function CoverageView({ overview, openPlace }) {
  const coverage = useMemo(() => coverageOf(overview), [overview]);
  const [shown, setShown] = useState(50);
  const place = overview.input ? (at) => openPlace({ path: `span/${at}-${Math.min(coverage.chars, at + SPAN)}`, title: `Input from character ${count(at)}` }) : null;
  const documents = coverage.documents;
  return html`<section>
    <h2>Coverage of ${plural(coverage.chars, "character")}</h2>
    <${Strip} coverage=${coverage} onPlace=${place} />
    <p class="note">${LANES.map(([, label, hint]) => `${label}: ${hint.charAt(0).toLowerCase()}${hint.slice(1)}`).join(" · ")}</p>
    ${!overview.input && html`<p class="note">The text of this run is not at hand, so its documents are not listed.</p>`}
    ${documents.length > 0 &&
    html`<h2>Documents</h2>
      <div class="scroll-x"><table class="grid">
        <thead><tr><th>Document</th><th class="num">Characters</th>${LANES.map(([lane, label, hint]) => html`<th class="num" title=${hint}>${label}</th>`)}</tr></thead>
        <tbody>
          ${documents.slice(0, shown).map(
            (one) => html`<tr key=${one.start} data-item tabindex="-1" onClick=${() => place && place(one.start)} class=${place ? "link-row" : ""}>
              <td class="name">${one.name}</td><td class="num">${count(one.end - one.start)}</td>
              ${LANES.map(([lane]) => html`<td class=${`num ${one[lane] ? "" : "dim"}`}>${percent(one[lane], one.end - one.start)}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table></div>
      ${documents.length > shown && html`<button class="more" onClick=${() => setShown(shown + 100)}>Show more of ${plural(documents.length, "document")}</button>`}
      ${overview.input.more_documents > 0 && html`<p class="note">${plural(overview.input.more_documents, "later document")} ${overview.input.more_documents === 1 ? "is" : "are"} left out.</p>`}`}
  </section>`;
}
