// The steps of a node: each round with its code, its output and its children side by side.

const STEPS_A_CHUNK = 20;
const VIOLATION_HINT = "The reply broke the contract of one repl block. Nothing of it was run.";

function ChildLine({ child, onOpen }) {
  return html`<button class=${`child-line ${child.status}`} data-item onClick=${onOpen}>
    <i class=${`dot ${child.status === "failed" ? "bad" : child.status === "cached" ? "warn" : "good"}`}></i>
    <span class="child-text">${child.error || child.reply || child.prompt || "(no reply)"}</span>
    <span class="dim">${seconds(child.seconds)}</span>
  </button>`;
}

function StepChildren({ run, node, step, version, openEvent, showChildren, nodes, selectNode }) {
  const [found, setFound] = useState([]);
  const most = Math.min(step.children, 6);
  useEffect(() => {
    let wanted = true;
    if (most) childrenOf(run, node, step.first_child, step.first_child + most).then((rows) => wanted && setFound(rows), () => {});
    return () => {
      wanted = false;
    };
  }, [run, node, step.first_child, most, step.failed, version]);
  const below = step.nodes.map((index) => nodes[index]).filter(Boolean);
  if (!step.children && !below.length && !step.helper_count) return html`<p class="dim">No calls</p>`;
  return html`<div>
    ${step.children > 0 &&
    html`<p class="children-sum">${plural(step.children, "child", "children")}${step.failed > 0 && html`, <b class="bad-text">${count(step.failed)} failed</b>`}${step.cached > 0 && `, ${count(step.cached)} cached`} · ${dollars(step.children_cost_usd)} · ${seconds(step.children_end - step.children_start)}</p>
      ${found.map((child) => html`<${ChildLine} key=${child.seq} child=${child} onOpen=${() => openEvent(child.seq, child.error_seq)} />`)}
      ${step.children > most && html`<button class="more" onClick=${() => showChildren(step)}>All ${count(step.children)} children</button>`}`}
    ${below.slice(0, 20).map(
      (one) => html`<button class="child-line" data-item onClick=${() => selectNode(one.index)}><i class=${`dot ${nodeTone(one)}`}></i><span class="child-text">↳ ${nameOf(one)}</span><span class="dim">${dollars(one.cost_usd)}</span></button>`,
    )}
    ${below.length > 20 && html`<p class="note">${count(below.length - 20)} more sub-RLMs are in the tree.</p>`}
    ${step.helpers.map(
      (one) => html`<button class="child-line" data-item onClick=${() => openEvent(one.seq)}><i class=${`dot ${one.ok ? "good" : "bad"}`}></i><span class="child-text"><b>${one.name}</b> ${one.arguments} ${one.result && `→ ${one.result}`}</span></button>`,
    )}
    ${step.helper_count > step.helpers.length && html`<p class="note">${count(step.helper_count - step.helpers.length)} more calls of helpers are left out.</p>`}
  </div>`;
}

function Round({ step, openEvent, ...rest }) {
  const failed = step.violation || (step.status && step.status !== "ok");
  const growth = step.prompt_tokens ? `${short(step.prompt_tokens)} tokens in the prompt` : "";
  return html`<article class=${`step ${failed ? "failed" : ""}`} id=${`step-${step.seq}`}>
    <header>
      <h3>Round ${step.number}</h3>
      ${step.violation && html`<${Badge} tone="bad" title=${VIOLATION_HINT}>${step.violation.replaceAll("_", " ")}<//>`}
      ${step.status && html`<${Badge} tone=${step.status === "ok" ? "good" : "bad"}>${step.status}<//>`}
      ${!step.status && !step.violation && html`<${Badge} tone="live">no result yet<//>`}
      <span class="dim">${[step.model, `${short(step.tokens_in)} → ${short(step.tokens_out)} tokens`, step.thinking && `thought ${short(step.thinking)}`, growth, dollars(step.cost_usd), `asked ${seconds(step.seconds)}`, step.cell_at && `ran ${seconds(step.cell_seconds)}`].filter(Boolean).join(" · ")}</span>
      <span class="step-links"><button class="link" onClick=${() => openEvent(step.seq)}>reply</button>${step.cell_seq > 0 && html` <button class="link" onClick=${() => openEvent(step.cell_seq)}>block</button>`}</span>
    </header>
    <${PromptBar} sections=${step.sections} actions=${step.actions} />
    <div class="columns">
      <div class="column"><h4>Code</h4>
        ${step.prose && html`<p class="prose">${step.prose}</p>`}
        ${step.code ? html`<${Text} text=${step.code} code lines=${24} />` : html`<${Text} text=${step.reply || "(empty reply)"} tone=${step.violation ? "bad" : ""} />`}
      </div>
      <div class="column"><h4>Output</h4>
        ${step.output && html`<${Text} text=${step.output} />`}
        ${step.error && html`<${Text} text=${step.error} tone="bad" lines=${10} />`}
        ${step.stderr && html`<${Text} text=${step.stderr} tone="warn" lines=${6} />`}
        ${!step.output && !step.error && !step.stderr && html`<p class="dim">${step.violation ? "Nothing was run." : step.status ? "Printed nothing." : ""}</p>`}
        ${step.variables.length > 0 && html`<details><summary>${plural(step.variables.length, "variable")} changed</summary><ul class="plain mono">${step.variables.map((one) => html`<li>${one}</li>`)}</ul></details>`}
      </div>
      <div class="column"><h4>Children</h4><${StepChildren} step=${step} openEvent=${openEvent} ...${rest} /></div>
    </div>
  </article>`;
}

function Call({ step, openEvent, ...rest }) {
  const isCall = step.kind === "call";
  return html`<article class="step call" id=${`step-${step.seq}`}>
    <header>
      <h3>${isCall ? `Call (${step.label})` : "Children"}</h3>
      ${isCall && html`<span class="dim">${[step.model, `${short(step.tokens_in)} → ${short(step.tokens_out)} tokens`, dollars(step.cost_usd), seconds(step.seconds), step.finish_reason].filter(Boolean).join(" · ")}</span>
        <span class="step-links"><button class="link" onClick=${() => openEvent(step.seq)}>whole call</button></span>`}
    </header>
    <${PromptBar} sections=${step.sections} actions=${step.actions} />
    ${isCall && html`<${Text} text=${step.reply || "(empty reply)"} />`}
    ${step.children > 0 && html`<${StepChildren} step=${step} openEvent=${openEvent} ...${rest} />`}
  </article>`;
}

const NOTES = { charge: "a failed call was charged", limit: "limit", warning: "note", kernel_died: "kernel", compaction: "folded", resumed: "resumed", interrupted: "interrupted", diverged: "diverged", planned: "plan" };

const Note = ({ step, openEvent }) => html`<p class=${`step-note ${step.label}`}>
  <button class="link" onClick=${() => openEvent(step.seq)}>${NOTES[step.label] || step.label}</button> ${step.title}
</p>`;

function StepChunk({ run, node, chunk, version, ...rest }) {
  const { value, error } = usePiece(run, `steps/${node}/${chunk}`, version);
  if (!value) return html`<${Waiting} error=${error} />`;
  return value.steps.map((step) => {
    const all = { key: step.seq, run, node, step, version, ...rest };
    if (step.kind === "note") return html`<${Note} ...${all} />`;
    return step.kind === "round" ? html`<${Round} ...${all} />` : html`<${Call} ...${all} />`;
  });
}

function StepsView({ overview, node, version, jump, ...rest }) {
  const total = overview.nodes[node].steps;
  const chunks = Math.max(1, Math.ceil(total / STEPS_A_CHUNK));
  const [shown, setShown] = useState(1);
  useEffect(() => setShown(1), [node]);
  const one = overview.nodes[node];
  return html`<section>
    ${one.kind !== "run" &&
    html`<div class="node-head"><h2>${one.kind === "part" ? "Part" : "Sub-RLM"}: ${one.title}</h2>
      ${one.error && html`<p class="bad-text">${one.error}</p>`}${one.answer && html`<${Text} text=${one.answer} lines=${6} />`}</div>`}
    ${total === 0 && html`<${Empty}>Nothing has happened here yet.<//>`}
    ${total > 0 && Array.from({ length: Math.min(shown, chunks) }, (_, chunk) => html`<${StepChunk} key=${`${node}/${chunk}`} run=${overview.run.run_id} node=${node} chunk=${chunk} version=${version} nodes=${overview.nodes} ...${rest} />`)}
    ${shown < chunks && html`<button class="more wide" onClick=${() => setShown(shown + 2)}>Show more of ${plural(total, "step")}</button>`}
  </section>`;
}
