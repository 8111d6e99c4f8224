// The children of a node: the first ones, and more on demand.

const SHOWN = 300;

const matches = (child, words) => {
  const all = `${child.prompt} ${child.reply} ${child.error} ${child.model} ${child.error_type}`.toLowerCase();
  return words.every((word) => all.includes(word));
};

const ORDERS = {
  order: ["in order", null],
  cost: ["most dollars", (a, b) => (b.cost_usd || 0) - (a.cost_usd || 0)],
  time: ["slowest", (a, b) => b.seconds - a.seconds],
  tokens: ["most tokens", (a, b) => b.tokens_in + b.tokens_out - a.tokens_in - a.tokens_out],
};

function spanText({ spans, chars }) {
  if (!spans.length) return chars ? `${short(chars)} chars` : "";
  return `${short(spans[0][0])}–${short(spans[0][1])}${spans.length > 1 ? " …" : ""}`;
}

function ChildRow({ child, onOpen }) {
  return html`<button class=${`child-row ${child.status}`} data-item onClick=${onOpen} aria-posinset=${child.index + 1}>
    <i class=${`dot ${child.status === "failed" ? "bad" : child.status === "cached" ? "warn" : "good"}`} title=${child.status}></i>
    <span class="child-number dim">${count(child.index + 1)}</span>
    <span class="child-span dim" title=${spanText(child)}>${spanText(child)}</span>
    <span class="child-prompt">${child.prompt}</span>
    <span class="child-reply">${child.error ? html`<b class="bad-text">${child.error_type || "failed"}</b> ${child.error}` : child.reply}</span>
    <span class="num dim">${short(child.tokens_in + child.tokens_out)}</span><span class="num dim">${dollars(child.cost_usd)}</span><span class="num dim">${seconds(child.seconds)}</span>
  </button>`;
}

function ChildrenView({ overview, node, round, setRound, openEvent }) {
  const { children } = overview.nodes[node];
  const [filter, setFilter] = useState({ status: "", words: "", order: "order" });
  const [most, setMost] = useState(SHOWN);
  const shown = useMemo(() => {
    const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean);
    const found = children.filter((child) => (!filter.status || child.status === filter.status) && (round === null || child.round === round) && matches(child, words));
    return ORDERS[filter.order][1] ? found.sort(ORDERS[filter.order][1]) : found;
  }, [overview, node, filter, round]);
  const change = (name) => (event) => {
    setFilter({ ...filter, [name]: event.currentTarget.value });
    setMost(SHOWN);
  };
  return html`<section class="children-view">
    <div class="filters">
      <label>Status <select value=${filter.status} onChange=${change("status")}><option value="">all</option><option value="ok">ok</option><option value="failed">failed</option><option value="cached">cached</option></select></label>
      <label>Order <select value=${filter.order} onChange=${change("order")}>${Object.entries(ORDERS).map(([name, [label]]) => html`<option value=${name}>${label}</option>`)}</select></label>
      <label class="grow">Words <input type="search" value=${filter.words} onInput=${change("words")} placeholder="in a prompt, reply or error" /></label>
      ${round !== null && html`<button class="chip" onClick=${() => setRound(null)}>round ${round} ✕</button>`}
      <span class="dim" role="status">${`${count(shown.length)} of ${plural(children.length, "child", "children")}`}</span>
    </div>
    ${!shown.length && html`<${Empty}>${children.length ? "No child is like that." : "No child was asked here."}<//>`}
    ${shown.length > 0 &&
    html`<div class="child-rows" aria-label="Children">
      <div class="child-row child-head dim" aria-hidden="true"><span></span><span class="child-number">No.</span><span class="child-span">Characters</span><span class="child-prompt">Question</span><span class="child-reply">Reply</span><span class="num">Tokens</span><span class="num">Cost</span><span class="num">Time</span></div>
      ${shown.slice(0, most).map((child) => html`<${ChildRow} key=${child.seq} child=${child} onOpen=${() => openEvent(child.seq, child.error_seq)} />`)}
    </div>`}
    ${shown.length > most && html`<button class="more wide" onClick=${() => setMost(most + 2_000)}>Show more of ${plural(shown.length, "child", "children")}</button>`}
  </section>`;
}
