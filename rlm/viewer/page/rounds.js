// The steps of a node: each round with its code, its output and its children side by side.

const STEPS_SHOWN = 40;
const CHILDREN_SHOWN = 6;
const VIOLATION_HINT = "The reply broke the contract of one repl block. Nothing of it was run.";

function ChildLine({ child, onOpen }) {
  return html`<button class=${`child-line ${child.status}`} data-item onClick=${onOpen}>
    <i class=${`dot ${child.status === "failed" ? "bad" : child.status === "cached" ? "warn" : "good"}`}></i>
    <span class="child-text">${child.error || child.reply || child.prompt || "(no reply)"}</span>
    <span class="dim">${seconds(child.seconds)}</span>
  </button>`;
}

function StepChildren({ step, openEvent, showChildren, nodes, selectNode }) {
  const { children } = step;
  const below = step.nodes.map((index) => nodes[index]).filter(Boolean);
  const took = children.length ? children.at(-1).at - children.reduce((low, one) => Math.min(low, one.at - one.seconds), Infinity) : 0;
  if (!children.length && !below.length && !step.helpers.length) return html`<p class="dim">No calls</p>`;
  return html`<div>
    ${children.length > 0 &&
    html`<p class="children-sum">${plural(children.length, "child", "children")}${step.failed > 0 && html`, <b class="bad-text">${count(step.failed)} failed</b>`}${step.cached > 0 && `, ${count(step.cached)} cached`} · ${dollars(step.children_cost)} · ${seconds(took)}</p>
      ${children.slice(0, CHILDREN_SHOWN).map((child) => html`<${ChildLine} key=${child.seq} child=${child} onOpen=${() => openEvent(child.seq, child.error_seq)} />`)}
      ${children.length > CHILDREN_SHOWN && html`<button class="more" onClick=${() => showChildren(step)}>All ${count(children.length)} children</button>`}`}
    ${below.slice(0, 20).map(
      (one) => html`<button class="child-line" data-item onClick=${() => selectNode(one.index)}><i class=${`dot ${nodeTone(one)}`}></i><span class="child-text">↳ ${nameOf(one)}</span><span class="dim">${dollars(one.cost_usd)}</span></button>`,
    )}
    ${below.length > 20 && html`<p class="note">${count(below.length - 20)} more sub-RLMs are in the tree.</p>`}
    ${step.helpers.slice(0, 40).map(
      (one) => html`<button class="child-line" data-item onClick=${() => openEvent(one.seq)}><i class=${`dot ${one.ok ? "good" : "bad"}`}></i><span class="child-text"><b>${one.name}</b> ${one.arguments} ${one.result && `→ ${one.result}`}</span></button>`,
    )}
    ${step.helpers.length > 40 && html`<p class="note">${count(step.helpers.length - 40)} more calls of helpers are left out.</p>`}
  </div>`;
}

function Round({ step, openEvent, ...rest }) {
  const failed = step.violation || (step.status && step.status !== "ok");
  const growth = step.prompt_tokens ? `${short(step.prompt_tokens)} tokens in the prompt` : "";
  return html`<article class=${`step ${failed ? "failed" : ""}`} id=${`step-${step.seq}`}>
    <header>
      <h3>Round ${step.number}</h3>
      ${step.violation && html`<${Badge} tone="bad" title=${VIOLATION_HINT}>${step.violation.replaceAll("_", " ")}<//>`}
      ${step.status && step.status !== "ok" && html`<${Badge} tone="bad">${step.status}<//>`}
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
    ${step.children.length > 0 && html`<${StepChildren} step=${step} openEvent=${openEvent} ...${rest} />`}
  </article>`;
}

const Note = ({ step, openEvent }) => html`<p class=${`step-note ${step.label}`}>
  <button class="link" onClick=${() => openEvent(step.seq)}>${KINDS[step.label] || step.label}</button> ${step.title}
</p>`;

function StepsView({ overview, node, target, ...rest }) {
  const one = overview.nodes[node];
  const [most, setMost] = useState(STEPS_SHOWN);
  useEffect(() => setMost(STEPS_SHOWN), [node]);
  useEffect(() => {
    const index = one.steps.findIndex((step) => step.seq === target.current);
    if (index >= most) return setMost(index + STEPS_SHOWN);
    const found = target.current !== null && document.getElementById(`step-${target.current}`);
    if (found) found.scrollIntoView({ block: "start" });
    target.current = null;
  });
  return html`<section>
    ${one.kind !== "run" &&
    html`<div class="node-head"><h2>${one.kind === "part" ? "Part" : "Sub-RLM"}: ${one.title}</h2>
      ${one.error && html`<p class="bad-text">${one.error}</p>`}${one.answer && html`<${Text} text=${one.answer} lines=${6} />`}</div>`}
    ${!one.steps.length && html`<${Empty}>Nothing has happened here yet.<//>`}
    ${one.steps.slice(0, most).map((step) => html`<${{ note: Note, round: Round }[step.kind] || Call} key=${step.seq} step=${step} nodes=${overview.nodes} ...${rest} />`)}
    ${most < one.steps.length && html`<button class="more wide" onClick=${() => setMost(most + STEPS_SHOWN)}>Show more of ${plural(one.steps.length, "step")}</button>`}
  </section>`;
}
