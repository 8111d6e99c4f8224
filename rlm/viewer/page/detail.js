// The panel at the side: a place in the source, or one event in full.

const TEXTS = ["prompt", "reply", "code", "message", "notes", "error", "prose", "arguments"];

function Value({ value }) {
  if (typeof value === "string") return value.length > 80 || value.includes("\n") ? html`<${Text} text=${value} lines=${10} />` : value || "–";
  if (value === null || typeof value !== "object") return String(value);
  const line = JSON.stringify(value);
  return line.length < 120 ? line : html`<${Text} text=${plain(value)} lines=${8} />`;
}

function EventBody({ run, seq, places, openPlace }) {
  const { value, error } = usePiece(run, `event/${seq}`);
  if (!value) return html`<${Waiting} error=${error} />`;
  const { data } = value;
  const rest = Object.entries(data).filter(([name]) => !TEXTS.includes(name));
  return html`<div>
    ${data.error && html`<h4>Error</h4><${Text} text=${data.error} tone="bad" lines=${12} />`}
    ${(places || []).map(([start, end]) => html`<button class="chip" onClick=${() => openPlace({ path: `span/${start}-${end}`, title: `Text that the child got` })}>characters ${count(start)}–${count(end)}</button> `)}
    ${value.sections.length > 0 && html`<h4>Prompt by sections</h4><${PromptBar} sections=${value.sections} />`}
    ${value.messages.map((one, at) => html`<h4 key=${at}>sent: ${one.role}</h4><${Text} text=${one.text} lines=${20} />`)}
    ${TEXTS.filter((name) => name !== "error" && data[name]).map((name) => html`<h4>${name}</h4><${Text} text=${plain(data[name])} code=${name === "code"} lines=${30} />`)}
    <h4>Everything else</h4>
    <dl class="facts wide">${rest.map(([name, one]) => html`<div key=${name}><dt>${name}</dt><dd><${Value} value=${one} /></dd></div>`)}</dl>
    ${value.cut && html`<p class="note">This event is longer. rlm export has all of it.</p>`}
  </div>`;
}

function Panel({ run, panel, openPlace, close }) {
  const box = useRef(null);
  useEffect(() => box.current && box.current.focus(), [panel]);
  return html`<aside class="panel" role="dialog" aria-label=${panel.title} tabindex="-1" ref=${box}>
    <header><h3>${panel.title}</h3>
      ${panel.step && html`<button class="link" onClick=${() => panel.step(-1)} disabled=${!panel.hasPrevious} aria-label="Previous citation">‹</button><button class="link" onClick=${() => panel.step(1)} disabled=${!panel.hasNext} aria-label="Next citation">›</button>`}
      <button class="link close" onClick=${close} aria-label="Close">✕</button></header>
    <div class="panel-body">
      ${panel.kind === "place" && html`<${Source} key=${panel.path} run=${panel.run || run} place=${panel} citation=${panel.citation} claims=${panel.claims || []} />`}
      ${panel.kind === "event" && [panel.seq, panel.errorSeq].filter(Boolean).map((seq) => html`<${EventBody} key=${seq} run=${run} seq=${seq} places=${panel.places} openPlace=${openPlace} />`)}
    </div>
  </aside>`;
}
