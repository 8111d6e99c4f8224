// Time and dollars: a bar for each call, block and batch of children, under the curve of what was spent.

const BARS = { round: "root call", call: "other call", cell: "block", children: "children" };

function barsOf(nodes) {
  const rows = [];
  for (const node of treeOrder(nodes)) {
    for (const step of node.steps) {
      if (step.kind === "note") continue;
      const base = { node, number: step.number, seq: step.seq };
      if (step.kind !== "children") rows.push({ ...base, kind: step.kind, label: step.label, from: step.at - step.seconds, to: step.at, cost: step.cost_usd });
      if (step.cell_at) rows.push({ ...base, kind: "cell", label: step.status, from: Math.max(step.at, step.cell_at - step.cell_seconds), to: step.cell_at });
      if (step.children.length) {
        const from = step.children.reduce((low, one) => Math.min(low, one.at - one.seconds), Infinity);
        const to = step.children.at(-1).at;
        rows.push({ ...base, kind: "children", label: plural(step.children.length, "child", "children"), from, to, cost: step.children_cost, failed: step.failed });
      }
    }
  }
  return rows;
}

function CostCurve({ costs, start, length }) {
  const most = costs.length ? costs.at(-1)[1] : 0;
  if (!most || costs.length < 2) return null;
  let path = "M0 30";
  let before = 30;
  for (const [at, spent] of costs.filter((_, index) => index % Math.ceil(costs.length / 400) === 0 || index === costs.length - 1)) {
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
  const rows = useMemo(() => barsOf(overview.nodes), [overview]);
  const [shown, setShown] = useState(200);
  if (!rows.length) return html`<${Empty}>Nothing has happened yet.<//>`;
  // The start of the kernel and the loading of the input are no calls.
  const start = rows.reduce((low, row) => Math.min(low, row.from), Infinity);
  const end = rows.reduce((high, row) => Math.max(high, row.to), start + 0.001);
  const length = end - start;
  const setUp = start - overview.run.started_at;
  const left = (at) => `${(100 * (at - start)) / length}%`;
  let node = overview.nodes[0];
  return html`<section>
    <h2>${seconds(length)} and ${dollars(overview.run.cost_usd)}${setUp > 0.1 && html` <span class="dim">after ${seconds(setUp)} of loading</span>`}</h2>
    <ul class="legend">${Object.entries(BARS).map(([kind, label]) => html`<li><i class=${`dot bar-${kind}`}></i>${label}</li>`)}<li><i class="dot bar-bad"></i>failed</li></ul>
    <div class="waterfall">
      <div class="bar-row axis"><span class="bar-name"></span><span class="bar-track">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<i style=${{ left: `${100 * part}%` }}>${seconds(length * part)}</i>`)}</span><span class="bar-cost"></span></div>
      <${CostCurve} costs=${overview.state.costs} start=${start} length=${length} />
      ${rows.slice(0, shown).map((row, index) => {
        const isNew = row.node !== node;
        node = row.node;
        const bad = row.kind === "cell" ? row.label !== "ok" : row.failed > 0;
        const label = row.kind === "round" ? `Round ${row.number}` : row.kind === "cell" ? `block ${row.number}` : row.label;
        const open = () => (row.kind === "children" ? showChildren(row.node.index, row.number) : row.kind === "call" ? openEvent(row.seq) : showRound(row.node.index, row.seq));
        return html`${isNew && row.node.index > 0 && html`<p class="bar-node" key=${`n${index}`} style=${{ paddingLeft: `${row.node.depth * 0.8}rem` }}>↳ ${nameOf(row.node)}</p>`}
          <button class="bar-row" data-item key=${index} onClick=${open} title=${`${label}: ${seconds(row.to - row.from)}${row.cost ? `, ${dollars(row.cost)}` : ""}`}>
            <span class="bar-name" style=${{ paddingLeft: `${Math.min(row.node.depth, 6) * 0.8}rem` }}>${label}</span>
            <span class="bar-track"><span class=${`bar bar-${row.kind} ${bad ? "bar-bad" : ""}`} style=${{ left: left(row.from), width: `${Math.max(0.25, (100 * (row.to - row.from)) / length)}%` }}></span></span>
            <span class="bar-cost num dim">${row.cost ? dollars(row.cost) : seconds(row.to - row.from)}</span>
          </button>`;
      })}
    </div>
    ${rows.length > shown && html`<button class="more wide" onClick=${() => setShown(shown + 400)}>Show more of ${plural(rows.length, "bar")}</button>`}
  </section>`;
}
