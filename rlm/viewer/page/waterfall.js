// Time and dollars: a bar for each call, block and batch of children, under the curve of what was spent.

const BARS = { round: "root call", call: "other call", cell: "block", children: "children" };

function Busy({ digits }) {
  return digits ? [...digits].map((one, index) => html`<i key=${index} style=${{ opacity: 0.25 + Number(one) / 12 }}></i>`) : null;
}

function CostCurve({ costs, start, length }) {
  const most = costs.reduce((top, [, spent]) => Math.max(top, spent), 0);
  if (!most || costs.length < 2) return null;
  let path = "M0 30";
  let before = 30;
  for (const [at, spent] of costs) {
    const x = ((1000 * (at - start)) / length).toFixed(1);
    const y = (30 - (28 * spent) / most).toFixed(2);
    path += `L${x} ${before}L${x} ${y}`;
    before = y;
  }
  return html`<div class="bar-row cost-row"><span class="bar-name">dollars</span>
    <svg class="cost" viewBox="0 0 1000 31" preserveAspectRatio="none" role="img" aria-label=${`Dollars over time, ${dollars(most)} at the end`}><path class="cost-area" d=${`${path}L1000 ${before}L1000 31L0 31Z`} /><path class="cost-line" d=${`${path}L1000 ${before}`} /></svg>
    <span class="bar-cost num">${dollars(most)}</span></div>`;
}

function TimelineView({ overview, openEvent, showRound, showChildren }) {
  const { rows, costs, left_out: leftOut } = overview.timeline;
  const [shown, setShown] = useState(200);
  if (!rows.length) return html`<${Empty}>Nothing has happened yet.<//>`;
  const start = rows.reduce((low, row) => Math.min(low, row.from), overview.run.started_at);
  const end = rows.reduce((high, row) => Math.max(high, row.to), start + 0.001);
  const length = end - start;
  const left = (at) => `${(100 * (at - start)) / length}%`;
  let node = -1;
  return html`<section>
    <h2>${seconds(length)} and ${dollars(overview.run.cost_usd)}</h2>
    <ul class="legend">${Object.entries(BARS).map(([kind, label]) => html`<li><i class=${`dot bar-${kind}`}></i>${label}</li>`)}<li><i class="dot bar-bad"></i>failed</li></ul>
    <div class="waterfall">
      <div class="bar-row axis"><span class="bar-name"></span><span class="bar-track">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<i style=${{ left: `${100 * part}%` }}>${seconds(length * part)}</i>`)}</span><span class="bar-cost"></span></div>
      <${CostCurve} costs=${costs} start=${start} length=${length} />
      ${rows.slice(0, shown).map((row, index) => {
        const isNew = row.node !== node;
        node = row.node;
        const bad = row.kind === "cell" ? row.label !== "ok" : row.failed > 0;
        const label = row.kind === "round" ? `Round ${row.number}` : row.kind === "cell" ? `block ${row.number}` : row.kind === "children" ? plural(Number(row.label), "child", "children") : row.label;
        const open = () => (row.kind === "children" ? showChildren(row.node, row.number) : row.kind === "call" ? openEvent(row.seq) : showRound(row.node, row.seq));
        return html`${isNew && row.node > 0 && html`<p class="bar-node" key=${`n${index}`} style=${{ paddingLeft: `${row.depth * 0.8}rem` }}>↳ ${nameOf(overview.nodes[row.node] || { kind: "sub_rlm" })}</p>`}
          <button class="bar-row" data-item key=${index} onClick=${open} title=${`${label}: ${seconds(row.to - row.from)}${row.cost_usd ? `, ${dollars(row.cost_usd)}` : ""}`}>
            <span class="bar-name" style=${{ paddingLeft: `${Math.min(row.depth, 6) * 0.8}rem` }}>${label}</span>
            <span class="bar-track"><span class=${`bar bar-${row.kind} ${bad ? "bar-bad" : ""}`} style=${{ left: left(row.from), width: `${Math.max(0.25, (100 * (row.to - row.from)) / length)}%` }}><${Busy} digits=${row.busy} /></span></span>
            <span class="bar-cost num dim">${row.cost_usd ? dollars(row.cost_usd) : seconds(row.to - row.from)}</span>
          </button>`;
      })}
    </div>
    ${rows.length > shown && html`<button class="more wide" onClick=${() => setShown(shown + 400)}>Show more of ${plural(rows.length, "bar")}</button>`}
    ${leftOut > 0 && html`<p class="note">${count(leftOut)} later bars are left out.</p>`}
  </section>`;
}
