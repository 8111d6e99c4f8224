// Two runs next to each other.

const MAX_LINES = 400;

// The longest common lines of two texts, as rows of [mark, line].
function differences(left, right) {
  const a = left.split("\n").slice(0, MAX_LINES);
  const b = right.split("\n").slice(0, MAX_LINES);
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const rows = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) rows.push([" ", a[i++], j++]);
    else if (i < a.length && (j === b.length || common[i + 1][j] >= common[i][j + 1])) rows.push(["-", a[i++]]);
    else rows.push(["+", b[j++]]);
  }
  return rows;
}

function Difference({ left, right }) {
  const rows = useMemo(() => differences(left, right), [left, right]);
  if (left === right) return html`<p class="dim">The same block.</p>`;
  return html`<pre class="difference" tabindex="0">${rows.map(([mark, line]) => html`<span class=${`line ${mark === "-" ? "only-left" : mark === "+" ? "only-right" : ""}`}>${mark} ${line}\n</span>`)}</pre>`;
}

function useRounds(run, overview) {
  const [rounds, setRounds] = useState(null);
  useEffect(() => {
    if (!overview) return;
    const gather = async () => {
      const found = [];
      const chunks = Math.min(10, Math.ceil(overview.nodes[0].steps / STEPS_A_CHUNK));
      for (let chunk = 0; chunk < chunks; chunk++) found.push(...(await load(run, `steps/0/${chunk}`)).steps);
      setRounds(found.filter((step) => step.kind === "round"));
    };
    gather().catch(() => setRounds([]));
  }, [run, overview]);
  return rounds;
}

const FIGURES = [
  ["Ended", (one) => one.run.status],
  ["Model", (one) => one.run.model],
  ["Children's model", (one) => one.run.sub_model],
  ["Strategy", (one) => (one.result || {}).strategy || one.run.strategy],
  ["Rounds", (one) => one.run.rounds, count],
  ["Children", (one) => one.run.sub_calls, count],
  ["Dollars", (one) => one.run.cost_usd, dollars],
  ["Seconds", (one) => (one.result || {}).seconds, seconds],
  ["Characters of input", (one) => one.coverage.chars, count],
  ["Read by blocks", (one) => one.coverage.totals.read, count],
  ["Answered by children", (one) => one.coverage.totals.answered, count],
  ["Citations found", (one) => one.result && one.result.citations.filter((citation) => citation.verified).length, count],
  ["Claims supported", (one) => one.result && one.result.claims.filter((claim) => claim.status === "supported").length, count],
  ["Claims not supported", (one) => one.result && one.result.claims.filter((claim) => claim.status === "unsupported").length, count],
];

function FigureTable({ both }) {
  return html`<div class="scroll-x"><table class="grid compare-table">
    <thead><tr><th></th>${both.map((one) => html`<th class="num"><a href=${`#/run/${encodeURIComponent(one.run.run_id)}`}>${one.run.run_id}</a></th>`)}</tr></thead>
    <tbody>${FIGURES.map(([name, of, write = plain]) => {
      const values = both.map(of);
      return html`<tr key=${name} class=${values[0] === values[1] ? "" : "differs"}><th>${name}</th>${values.map((value) => html`<td class="num">${value == null ? "–" : write(value)}</td>`)}</tr>`;
    })}</tbody>
  </table></div>`;
}

function CompareView({ names, openPlace }) {
  const loaded = names.map((name) => usePiece(name, "overview", 0));
  const rounds = names.map((name, index) => useRounds(name, loaded[index].value));
  const error = loaded.map((one) => one.error).find(Boolean);
  if (!loaded.every((one) => one.value)) return html`<${Waiting} error=${error} />`;
  const both = loaded.map((one) => one.value);
  const quotes = both.map((one) => new Set((one.result ? one.result.citations : []).map((citation) => `${citation.document}\n${citation.quote}`)));
  const most = Math.max(...rounds.map((one) => (one ? one.length : 0)));
  const open = (index, number) => openPlace({ run: names[index], path: `place/${number}`, title: `Citation ${number}`, citation: both[index].result.citations[number - 1], claims: both[index].result.claims });
  return html`<main class="compare">
    <h1>${both[0].run.task}</h1>
    ${both[1].run.task !== both[0].run.task && html`<p class="note">The second run had another question: ${both[1].run.task}</p>`}
    <${FigureTable} both=${both} />
    <div class="pair">${both.map(
      (one, index) => html`<section>
        <h2>Answer of ${one.run.run_id}</h2>
        ${one.result ? html`<${Answer} result=${one.result} openCitation=${(number) => open(index, number)} />` : html`<${Empty}>No answer yet.<//>`}
        <h2>Coverage</h2><${Strip} coverage=${one.coverage} small />
        <h2>Citations</h2>
        <ul class="citations">${(one.result ? one.result.citations : []).map(
          (citation) => html`<li><button class="citation" data-item onClick=${() => open(index, citation.number)}><span class="citation-head"><b>${citation.marker}</b> <span class="place">${citation.place}</span></span><q>${citation.quote}</q>
            <span class="badges"><${Badge} tone=${quotes[1 - index].has(`${citation.document}\n${citation.quote}`) ? "" : "warn"}>${quotes[1 - index].has(`${citation.document}\n${citation.quote}`) ? "in both" : "only here"}<//><${Verdict} status=${citation.verdict} /></span></button></li>`,
        )}</ul>
      </section>`,
    )}</div>
    <h2>Rounds</h2>
    ${rounds.every(Boolean) &&
    Array.from({ length: most }, (_, index) => {
      const [left, right] = rounds.map((one) => one[index]);
      const code = (step) => (step ? step.code || step.reply : "");
      return html`<article class="step" key=${index}><header><h3>Round ${index + 1}</h3>
        <span class="dim">${[left, right].map((step) => (step ? [step.violation || step.status || "–", dollars(step.cost_usd), plural(step.children, "child", "children")].join(" · ") : "none")).join("   |   ")}</span></header>
        ${left && right ? html`<${Difference} left=${code(left)} right=${code(right)} />` : html`<p class="note">Only ${left ? names[0] : names[1]} has this round.</p><${Text} text=${code(left || right)} code />`}
      </article>`;
    })}
  </main>`;
}
