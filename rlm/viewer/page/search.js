// Search in what the page has of a run: the question, the answer, its citations, the steps and the children.

const MOST_HITS = 200;

function around(text, word) {
  const at = text.toLowerCase().indexOf(word);
  const start = Math.max(0, at - 50);
  return [start > 0 ? "…" : "", text.slice(start, at), text.slice(at, at + word.length), text.slice(at + word.length, at + 130)];
}

function stepTexts(step) {
  return [["code", step.code], ["reply", step.code ? "" : step.reply], ["prose", step.prose], ["output", step.output], ["error", step.error], ["note", step.title], ["violation", step.violation]];
}

// Yield hits in the order of the tree. Each has where it is, its text, and how to open it.
async function* search(overview, word) {
  const run = overview.run.run_id;
  const hit = (where, text, open) => ({ where, parts: around(text, word), open });
  const has = (text) => typeof text === "string" && text.toLowerCase().includes(word);
  if (has(overview.run.task)) yield hit("question", overview.run.task, { tab: "answer" });
  if (overview.result) {
    const answer = overview.result.pieces.map((piece) => piece.text).join("");
    if (has(answer)) yield hit("answer", answer, { tab: "answer" });
    for (const one of overview.result.citations) {
      const text = `${one.place}: ${one.quote}`;
      if (has(text)) yield hit(`citation ${one.number}`, text, { citation: one.number });
    }
  }
  for (const one of overview.coverage.documents) if (has(one.name)) yield hit("document", one.name, { tab: "coverage" });
  for (const node of treeOrder(overview.nodes)) {
    const name = node.kind === "run" ? "" : `${nameOf(node).slice(0, 40)}: `;
    if (node.kind !== "run" && has(node.title)) yield hit(nameOf(node).slice(0, 40), node.title, { tab: "steps", node: node.index });
    for (let chunk = 0; chunk * STEPS_A_CHUNK < node.steps; chunk++) {
      for (const step of (await load(run, `steps/${node.index}/${chunk}`)).steps) {
        for (const [what, text] of stepTexts(step)) if (has(text)) yield hit(`${name}${step.kind === "round" ? `round ${step.number}, ` : ""}${what}`, text, { tab: "steps", node: node.index, seq: step.seq });
      }
    }
    for (let chunk = 0; chunk * CHILDREN_A_CHUNK < node.children; chunk++) {
      for (const child of await childChunk(run, node.index, chunk)) {
        const text = [child.prompt, child.reply, child.error].find(has);
        if (text) yield hit(`${name}child of round ${child.round}`, text, { event: child.seq, errorSeq: child.error_seq });
      }
    }
  }
}

function SearchBox({ overview, open, close }) {
  const [word, setWord] = useState("");
  const [found, setFound] = useState({ hits: [], isDone: true, problem: null });
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  useEffect(() => {
    const wanted = word.trim().toLowerCase();
    if (wanted.length < 2) {
      setFound({ hits: [], isDone: true, problem: null });
      return undefined;
    }
    let goesOn = true;
    const gather = async () => {
      const hits = [];
      for await (const one of search(overview, wanted)) {
        if (!goesOn || hits.length >= MOST_HITS) break;
        hits.push(one);
      }
      if (goesOn) setFound({ hits, isDone: true, problem: null });
    };
    setFound((old) => ({ ...old, isDone: false }));
    const later = setTimeout(() => gather().catch((problem) => goesOn && setFound({ hits: [], isDone: true, problem })), 150);
    return () => {
      goesOn = false;
      clearTimeout(later);
    };
  }, [word, overview]);
  return html`<div class="overlay" onClick=${(event) => event.target === event.currentTarget && close()}>
    <div class="search" role="dialog" aria-label="Search in this run">
      <input ref=${input} type="search" value=${word} onInput=${(event) => setWord(event.currentTarget.value)} placeholder="Search code, output, replies, citations" aria-label="Search" />
      <p class="dim" role="status">${found.problem ? found.problem.message : !found.isDone ? "Searching…" : word.trim().length < 2 ? "Long replies of children are searched in their first 300 characters." : `${found.hits.length >= MOST_HITS ? "The first " : ""}${plural(found.hits.length, "hit")}`}</p>
      <ul>${found.hits.map(({ where, parts: [lead, before, inside, after], open: target }) => html`<li><button data-item class="hit" onClick=${() => open(target)}><b>${where}</b><span>${lead}${before}<mark>${inside}</mark>${after}</span></button></li>`)}</ul>
    </div>
  </div>`;
}
