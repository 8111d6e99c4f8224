// Search in what the page has of a run: the question, the answer, its citations, the steps and the children.

const MOST_HITS = 200;

function around(all, word) {
  const at = all.toLowerCase().indexOf(word);
  const start = Math.max(0, at - 50);
  return [start > 0 ? "…" : "", all.slice(start, at), all.slice(at, at + word.length), all.slice(at + word.length, at + 130)];
}

function stepTexts(step) {
  return [["code", step.code], ["reply", step.code ? "" : step.reply], ["prose", step.prose], ["output", step.output], ["error", step.error], ["note", step.title], ["violation", step.violation]];
}

// Yield hits in the order of the tree. Each has where it is, its text, and how to open it.
function* search(overview, word) {
  const hit = (where, all, open) => ({ where, parts: around(all, word), open });
  const has = (all) => typeof all === "string" && all.toLowerCase().includes(word);
  if (has(overview.run.task)) yield hit("question", overview.run.task, { tab: "answer" });
  if (overview.result) {
    const answer = overview.result.pieces.map((one) => one.text).join("");
    if (has(answer)) yield hit("answer", answer, { tab: "answer" });
    for (const one of overview.result.citations) {
      const all = `${one.place}: ${one.quote}`;
      if (has(all)) yield hit(`citation ${one.number}`, all, { citation: one.number });
    }
  }
  for (const one of overview.input ? overview.input.documents : []) if (has(one.name)) yield hit("document", one.name, { tab: "coverage" });
  for (const node of treeOrder(overview.nodes)) {
    const name = node.kind === "run" ? "" : `${nameOf(node).slice(0, 40)}: `;
    if (node.kind !== "run" && has(node.title)) yield hit(nameOf(node).slice(0, 40), node.title, { tab: "steps", node: node.index });
    for (const step of node.steps) {
      for (const [what, all] of stepTexts(step)) if (has(all)) yield hit(`${name}${step.kind === "round" ? `round ${step.number}, ` : ""}${what}`, all, { tab: "steps", node: node.index, seq: step.seq });
    }
    for (const child of node.children) {
      const all = [child.prompt, child.reply, child.error].find(has);
      if (all) yield hit(`${name}child of round ${child.round}`, all, { event: child.seq, errorSeq: child.error_seq });
    }
  }
}

function SearchBox({ overview, open, close }) {
  const [word, setWord] = useState("");
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  const wanted = word.trim().toLowerCase();
  const hits = useMemo(() => {
    const found = [];
    if (wanted.length >= 2) {
      for (const one of search(overview, wanted)) if (found.push(one) >= MOST_HITS) break;
    }
    return found;
  }, [wanted, overview]);
  return html`<div class="overlay" onClick=${(event) => event.target === event.currentTarget && close()}>
    <div class="search" role="dialog" aria-label="Search in this run">
      <input ref=${input} type="search" value=${word} onInput=${(event) => setWord(event.currentTarget.value)} placeholder="Search code, output, replies, citations" aria-label="Search" />
      <p class="dim" role="status">${wanted.length < 2 ? "Long replies of children are searched in their first 300 characters." : `${hits.length >= MOST_HITS ? "The first " : ""}${plural(hits.length, "hit")}`}</p>
      <ul>${hits.map(({ where, parts: [lead, before, inside, after], open: target }) => html`<li><button data-item class="hit" onClick=${() => open(target)}><b>${where}</b><span>${lead}${before}<mark>${inside}</mark>${after}</span></button></li>`)}</ul>
    </div>
  </div>`;
}
