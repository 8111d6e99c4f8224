// The page: which run, which tab, which panel.

const TABS = [["answer", "Answer"], ["steps", "Steps"], ["timeline", "Timeline"], ["coverage", "Coverage"], ["children", "Children"]];
const RELOAD_MS = 1_000;

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return "";
    }
  });
  if (parts[0] === "run" && parts[1]) {
    const node = Number(parts[3] || 0);
    return { view: "run", run: parts[1], tab: TABS.some(([name]) => name === parts[2]) ? parts[2] : "answer", node: Number.isInteger(node) && node >= 0 ? node : 0 };
  }
  return { view: "runs" };
}

function useRoute() {
  const [now, setNow] = useState(route());
  useEffect(() => {
    const change = () => setNow(route());
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return now;
}

const runHash = (run, tab = "answer", node = 0) => `#/run/${encodeURIComponent(run)}/${tab}${node ? `/${node}` : ""}`;

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

function RunList({ open }) {
  const [runs, setRuns] = useState({ value: null, error: null });
  const [words, setWords] = useState("");
  useEffect(() => {
    let wanted = true;
    const ask = () => loadRuns().then((value) => wanted && setRuns({ value, error: null }), (error) => wanted && setRuns((old) => ({ value: old.value, error })));
    ask();
    const timer = isExport ? null : setInterval(() => document.hidden || ask(), 5_000);
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, []);
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = (runs.value || []).filter((run) => wanted.every((word) => `${run.run_id} ${run.task} ${run.answer} ${run.model} ${run.status} ${run.job}`.toLowerCase().includes(word)));
  return html`<main class="run-list">
    <header class="list-head"><h1>Runs</h1>
      <input type="search" id="filter" value=${words} onInput=${(event) => setWords(event.currentTarget.value)} placeholder="Filter" aria-label="Filter the runs" />
      <button class="chip" onClick=${toggleTheme} title="Light or dark (t)" aria-label="Light or dark">◐</button>
      <button class="chip" onClick=${open.help} aria-label="Keys">?</button>
    </header>
    ${runs.error && html`<${Waiting} error=${runs.error} />`}
    ${!runs.value && !runs.error && html`<${Waiting} />`}
    ${runs.value && !shown.length && html`<${Empty}>${runs.value.length ? "No run is like that." : "There are no runs yet. Ask something with rlm ask."}<//>`}
    <ul class="runs">${shown.map(
      (run) => html`<li key=${run.run_id}>
        <a data-item href=${runHash(run.run_id)}>
          <span class="run-task">${run.task}</span>
          ${run.answer && html`<span class="run-answer dim">${run.answer}</span>`}
          <span class="run-facts"><${StateBadge} run=${run} />${run.job && html`<${Badge}>${run.job}<//>`}<span>${day(run.started_at)}</span><span>${run.model}</span>${run.rounds > 0 && html`<span>${plural(run.rounds, "round")}</span>`}${run.sub_calls > 0 && html`<span>${plural(run.sub_calls, "child", "children")}</span>`}<span>${dollars(run.cost_usd)}</span><span class="mono dim">${run.run_id}</span></span>
        </a>
      </li>`,
    )}</ul>
  </main>`;
}

function Head({ overview, tab, node, lost, open }) {
  const { run } = overview;
  const [isLong, setLong] = useState(false);
  return html`<header class="head">
    <div class="head-top">
      <a class="back" href="#/" title="All runs (g)">‹ Runs</a>
      <${StateBadge} run=${run} />
      <span class="mono dim run-name">${run.run_id}</span>
      ${lost && html`<${Badge} tone="bad">connection lost<//>`}
      <span class="grow"></span>
      <button class="chip" onClick=${open.search} title="Search (/)">Search</button>
      <button class="chip" onClick=${toggleTheme} title="Light or dark (t)" aria-label="Light or dark">◐</button>
      <button class="chip" onClick=${open.help} title="Keys (?)" aria-label="Keys">?</button>
    </div>
    <h1 class=${isLong ? "" : "cut-lines"} onClick=${() => setLong(!isLong)}>${run.task}</h1>
    <p class="head-facts">${[run.job, run.model, run.sub_model && run.sub_model !== run.model && `children ${run.sub_model}`, `${short(run.chars)} characters`, run.documents != null && plural(run.documents, "document"), plural(run.rounds, "round"), plural(run.sub_calls, "child", "children"), dollars(run.cost_usd), seconds(run.finished_at ? run.finished_at - run.started_at : null), day(run.started_at)].filter((part) => part && part !== "–").map((part) => html`<span>${part}</span>`)}</p>
    <nav class="tabs" aria-label="Views">${TABS.map(([name, label], index) => html`<a key=${name} href=${runHash(run.run_id, name, node)} aria-current=${name === tab ? "page" : undefined} title=${`${index + 1}`}>${label}</a>`)}</nav>
  </header>`;
}

function RunView({ at, open, panel, setPanel, overlay }) {
  const { run, tab } = at;
  const [round, setRound] = useState(null);
  const { overview, error, lost } = useRun(run);
  const target = useRef(null);
  const node = overview && at.node < overview.nodes.length ? at.node : 0;
  const go = useCallback((to, which = 0) => (location.hash = runHash(run, to, which)), [run]);

  useEffect(() => {
    if (overview) document.title = `${overview.run.task.slice(0, 60)} – rlm view`;
  }, [overview]);

  const openPlace = (place) => setPanel({ kind: "place", ...place });
  const openEvent = (seq, errorSeq) => {
    const owner = overview.nodes.find((one) => one.children.some((child) => child.seq === seq));
    const child = owner && owner.children.find((one) => one.seq === seq);
    setPanel({ kind: "event", title: child ? `Child ${count(child.index + 1)}` : `Event ${seq}`, seq, errorSeq, places: child && absolute(overview.state, owner, child.spans.slice(0, 3)) });
  };
  const openCitation = (number) => {
    const { citations, claims } = overview.result;
    const one = citations[number - 1];
    if (!one) return;
    setPanel({ kind: "place", title: `Citation ${number} of ${citations.length}`, path: `place/${number}`, citation: one, claims, hasPrevious: number > 1, hasNext: number < citations.length, step: (by) => openCitation(Math.max(1, Math.min(citations.length, number + by))) });
  };
  const showRound = (which, seq) => {
    target.current = seq;
    go("steps", which);
  };
  const showChildren = (which, number) => {
    setRound(number);
    go("children", which);
  };
  const openHit = (hit) => {
    open.close();
    if (hit.citation) openCitation(hit.citation);
    else if (hit.event) openEvent(hit.event, hit.errorSeq);
    else if (hit.seq) showRound(hit.node, hit.seq);
    else go(hit.tab, hit.node || 0);
  };
  const index = TABS.findIndex(([name]) => name === tab);
  const turn = (by) => (panel && panel.step ? panel.step(by) : go(TABS[Math.max(0, Math.min(TABS.length - 1, index + by))][0], node));
  useKeys({
    ArrowLeft: () => turn(-1),
    ArrowRight: () => turn(1),
    n: () => walkSteps(1),
    p: () => walkSteps(-1),
    "/": open.search,
    ...Object.fromEntries(TABS.map(([name], place) => [String(place + 1), () => go(name, node)])),
  });

  if (!overview) return html`<main><${Waiting} error=${error} />${error && html`<p class="empty"><a href="#/">All runs</a></p>`}</main>`;
  const shared = { overview, node, openEvent, openPlace };
  const hasTree = overview.nodes.length > 1;
  return html`<div class=${`run ${panel ? "with-panel" : ""}`}>
    <${Head} overview=${overview} tab=${tab} node=${node} lost=${lost} open=${open} />
    <div class=${`body ${hasTree ? "with-tree" : ""}`}>
      ${hasTree && html`<details class="tree-box" open=${matchMedia("(min-width: 60rem)").matches}><summary>Tree (${count(overview.nodes.length)})</summary><${Tree} overview=${overview} selected=${node} onSelect=${(which) => go(tab === "children" ? "children" : "steps", which)} /></details>`}
      <main class="content" data-ready="true">
        ${tab === "answer" && html`<${AnswerView} overview=${overview} openCitation=${openCitation} go=${go} />`}
        ${tab === "steps" && html`<${StepsView} ...${shared} target=${target} selectNode=${(which) => go("steps", which)} showChildren=${(step) => showChildren(node, step.number)} />`}
        ${tab === "timeline" && html`<${TimelineView} ...${shared} showRound=${showRound} showChildren=${showChildren} />`}
        ${tab === "coverage" && html`<${CoverageView} ...${shared} />`}
        ${tab === "children" && html`<${ChildrenView} key=${node} ...${shared} round=${round} setRound=${setRound} />`}
      </main>
    </div>
    ${overlay === "search" && html`<${SearchBox} overview=${overview} open=${openHit} close=${open.close} />`}
  </div>`;
}

function App() {
  const at = useRoute();
  const [panel, setPanel] = useState(null);
  const [overlay, setOverlay] = useState(null);
  const last = useRef(null);
  const run = at.run || "";
  useEffect(() => setPanel(null), [at.view, run]);
  const show = (next) => {
    if (!panel) last.current = document.activeElement;
    setPanel(next);
  };
  const close = () => {
    if (overlay) setOverlay(null);
    else if (panel) {
      setPanel(null);
      if (last.current && last.current.isConnected) last.current.focus();
    } else document.activeElement.blur();
  };
  const open = { search: () => setOverlay("search"), help: () => setOverlay("help"), close: () => setOverlay(null) };
  const openPlace = (place) => show({ kind: "place", ...place });
  useKeys({
    j: () => walk(1),
    k: () => walk(-1),
    ArrowDown: () => walk(1),
    ArrowUp: () => walk(-1),
    Escape: close,
    "?": () => setOverlay("help"),
    t: toggleTheme,
    g: () => (location.hash = "#/"),
    ...(at.view === "runs" ? { "/": () => document.getElementById("filter").focus() } : {}),
  });
  return html`<div class="app">
    ${at.view === "runs" && html`<${RunList} open=${open} />`}
    ${at.view === "run" && html`<${RunView} key=${run} at=${at} open=${open} panel=${panel} setPanel=${show} overlay=${overlay} />`}
    ${panel && html`<${Panel} run=${run} panel=${panel} openPlace=${openPlace} close=${close} />`}
    ${overlay === "help" && html`<${Help} close=${() => setOverlay(null)} />`}
  </div>`;
}

if (isExport && !location.hash && embedded.start) location.replace(embedded.start);
render(html`<${App} />`, document.getElementById("page"));
