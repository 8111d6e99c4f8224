// The children of a node: a list of which only the rows on the screen exist, whatever its length.

const CHILDREN_A_CHUNK = 500;
const ROW = 46;

async function childChunk(run, node, chunk) {
  const { columns, rows } = await load(run, `children/${node}/${chunk}`);
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]])));
}

async function childrenOf(run, node, from, to) {
  const found = [];
  for (let chunk = Math.floor(from / CHILDREN_A_CHUNK); chunk * CHILDREN_A_CHUNK < to; chunk++) {
    const rows = await childChunk(run, node, chunk);
    const first = chunk * CHILDREN_A_CHUNK;
    found.push(...rows.slice(Math.max(0, from - first), to - first));
  }
  return found;
}

const matches = (child, words) => {
  const text = `${child.prompt} ${child.reply} ${child.error} ${child.model} ${child.error_type}`.toLowerCase();
  return words.every((word) => text.includes(word));
};

const ORDERS = {
  order: ["in order", null],
  cost: ["most dollars", (a, b) => (b.cost_usd || 0) - (a.cost_usd || 0)],
  time: ["slowest", (a, b) => b.seconds - a.seconds],
  tokens: ["most tokens", (a, b) => b.tokens_in + b.tokens_out - a.tokens_in - a.tokens_out],
};

function spansOf({ spans, chars }) {
  if (!spans.length) return chars ? `${short(chars)} chars` : "";
  return `${short(spans[0][0])}–${short(spans[0][1])}${spans.length > 1 ? " …" : ""}`;
}

function ChildRow({ child, top, number, onOpen }) {
  return html`<button class=${`child-row ${child ? child.status : ""}`} data-item style=${{ transform: `translateY(${top}px)` }} onClick=${onOpen} disabled=${!child} aria-posinset=${number + 1}>
    ${child
      ? html`<i class=${`dot ${child.status === "failed" ? "bad" : child.status === "cached" ? "warn" : "good"}`}></i>
          <span class="child-number dim">${count(number + 1)}</span>
          <span class="child-span dim" title=${spansOf(child)}>${spansOf(child)}</span>
          <span class="child-prompt">${child.prompt}</span>
          <span class="child-reply">${child.error ? html`<b class="bad-text">${child.error_type || "failed"}</b> ${child.error}` : child.reply}</span>
          <span class="num dim">${short(child.tokens_in + child.tokens_out)}</span><span class="num dim">${dollars(child.cost_usd)}</span><span class="num dim">${seconds(child.seconds)}</span>`
      : html`<span class="dim">…</span>`}
  </button>`;
}

function ChildrenView({ overview, node, version, round, setRound, openEvent }) {
  const run = overview.run.run_id;
  const total = overview.nodes[node].children;
  const [filter, setFilter] = useState({ status: "", text: "", order: "order" });
  const [every, setEvery] = useState(null);
  const [chunks, setChunks] = useState({});
  const [problem, setProblem] = useState(null);
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  const box = useRef(null);
  const isFiltered = Boolean(filter.status || filter.text.trim() || filter.order !== "order" || round !== null);

  // A filter needs all rows; the plain list only those on the screen.
  useEffect(() => {
    let wanted = true;
    setEvery(null);
    if (isFiltered && total) {
      const gather = async () => {
        const found = [];
        for (let chunk = 0; chunk * CHILDREN_A_CHUNK < total && wanted; chunk++) found.push(...(await childChunk(run, node, chunk)));
        if (wanted) setEvery(found.map((child, number) => ({ ...child, number })));
      };
      gather().catch((error) => wanted && setProblem(error));
    }
    return () => {
      wanted = false;
    };
  }, [run, node, version, isFiltered, total]);

  const shown = useMemo(() => {
    if (!isFiltered || !every) return null;
    const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = every.filter((child) => (!filter.status || child.status === filter.status) && (round === null || child.round === round) && matches(child, words));
    const order = ORDERS[filter.order][1];
    return order ? found.sort(order) : found;
  }, [every, filter, round, isFiltered]);

  const length = isFiltered ? (shown ? shown.length : 0) : total;
  const first = Math.max(0, Math.floor(scroll.top / ROW) - 8);
  const last = Math.min(length, Math.ceil((scroll.top + scroll.height) / ROW) + 8);

  useEffect(() => setChunks({}), [run, node, version]);
  useEffect(() => {
    if (isFiltered || !total) return undefined;
    let wanted = true;
    for (let chunk = Math.floor(first / CHILDREN_A_CHUNK); chunk * CHILDREN_A_CHUNK < last; chunk++) {
      if (chunks[chunk]) continue;
      childChunk(run, node, chunk).then(
        (rows) => wanted && setChunks((old) => ({ ...old, [chunk]: rows })),
        (error) => wanted && setProblem(error),
      );
    }
    return () => {
      wanted = false;
    };
  }, [run, node, version, isFiltered, first, last, total, chunks]);

  useLayoutEffect(() => {
    if (!box.current) return undefined;
    const measure = () => box.current && setScroll({ top: box.current.scrollTop, height: box.current.clientHeight });
    measure();
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, []);

  const at = (index) => (isFiltered ? shown && shown[index] : (chunks[Math.floor(index / CHILDREN_A_CHUNK)] || [])[index % CHILDREN_A_CHUNK]);
  const rows = [];
  for (let index = first; index < last; index++) {
    const child = at(index);
    rows.push(html`<${ChildRow} key=${index} child=${child} top=${index * ROW} number=${child && child.number !== undefined ? child.number : index} onOpen=${() => child && openEvent(child.seq, child.error_seq)} />`);
  }
  const change = (name) => (event) => setFilter({ ...filter, [name]: event.currentTarget.value });
  return html`<section class="children-view">
    <div class="filters">
      <label>Status <select value=${filter.status} onChange=${change("status")}><option value="">all</option><option value="ok">ok</option><option value="failed">failed</option><option value="cached">cached</option></select></label>
      <label>Order <select value=${filter.order} onChange=${change("order")}>${Object.entries(ORDERS).map(([name, [label]]) => html`<option value=${name}>${label}</option>`)}</select></label>
      <label class="grow">Words <input type="search" value=${filter.text} onInput=${change("text")} placeholder="in a prompt, reply or error" /></label>
      ${round !== null && html`<button class="chip" onClick=${() => setRound(null)}>round ${round} ✕</button>`}
      <span class="dim" role="status">${isFiltered && !shown ? "Loading…" : `${count(length)} of ${plural(total, "child", "children")}`}</span>
    </div>
    ${problem && html`<${Waiting} error=${problem} />`}
    ${length === 0 && !problem && html`<${Empty}>${isFiltered && shown ? "No child is like that." : isFiltered && total ? "Loading…" : "No child was asked here."}<//>`}
    <div class="child-rows" ref=${box} tabindex="0" aria-label="Children" onScroll=${(event) => setScroll({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}>
      <div style=${{ height: `${length * ROW}px`, position: "relative" }}>${rows}</div>
    </div>
  </section>`;
}
