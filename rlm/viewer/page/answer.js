// The answer with its claims, and each citation with its place in the source.

const VERDICTS = {
  supported: ["good", "supported"],
  unsupported: ["bad", "not supported"],
  unchecked: ["", "unchecked"],
};

function citationTone(one) {
  if (one.seen) return ["warn", "seen on the page"];
  return one.verified ? ["good", "found in the input"] : ["bad", "not found in the input"];
}

function Verdict({ status }) {
  const found = VERDICTS[status];
  return found ? html`<${Badge} tone=${found[0]} title="Whether the source supports what the answer says">${found[1]}<//>` : null;
}

// The lines of an answer, each a list of [text, wrap].
function answerLines(result, openCitation) {
  const rows = [[]];
  for (const piece of result.pieces) {
    const claim = piece.claim === null ? null : result.claims[piece.claim];
    const wrap = piece.cites.length
      ? (text) => html`<button class="mark" onClick=${() => openCitation(piece.cites[0])} title=${`Open citation ${piece.cites.join(", ")}`}>${text}</button>`
      : claim
        ? (text) => html`<span class=${`claim ${claim.status}`} title=${`${(VERDICTS[claim.status] || ["", ""])[1]}${claim.reason ? `: ${claim.reason}` : ""}`}>${text}</span>`
        : (text) => text;
    piece.text.split("\n").forEach((text, index) => {
      if (index) rows.push([]);
      if (text) rows[rows.length - 1].push([text, wrap]);
    });
  }
  return rows;
}

// Bold, emphasis and code within a line. The page makes no links: what a document says may lead anywhere.
const INLINE = /(\*\*[^*\s](?:[^*]*[^*\s])?\*\*|`[^`]+`|\*[^*\s](?:[^*]*[^*\s])?\*)/;

function inline(line) {
  return line.split(INLINE).map((part, index) =>
    index % 2 === 0 ? part : part.startsWith("**") ? html`<b>${part.slice(2, -2)}</b>` : part.startsWith("`") ? html`<code>${part.slice(1, -1)}</code>` : html`<em>${part.slice(1, -1)}</em>`,
  );
}

// Headings and items of Markdown get their shape. Tables and code stay as they are, in one width.
function Answer({ result, openCitation }) {
  if (!result.pieces.length) {
    return html`<p class="answer none">No answer: ${result.cause || result.stop_reason || "this version cannot read the result"}</p>`;
  }
  let isCode = false;
  return html`<div class=${`answer ${result.is_text ? "" : "data"}`}>
    ${answerLines(result, openCitation).map((row) => {
      const first = row.length ? row[0][0] : "";
      const isFence = result.is_text && first.startsWith("```");
      if (isFence) isCode = !isCode;
      const isPlain = !result.is_text || isCode || isFence || first.startsWith("|");
      const sign = !isPlain ? /^(#{1,4}|\s*[-*]) +/.exec(first) : null;
      const kind = !sign ? (result.is_text && isPlain ? "line code" : "line") : sign[1].startsWith("#") ? "line heading" : "line item";
      return html`<div class=${kind}>${row.map(([text, wrap], index) => wrap(isPlain ? text : inline(sign && !index ? text.slice(sign[0].length) : text)))}${row.length ? "" : "\n"}</div>`;
    })}
    ${result.claims.some((one) => one.status !== "supported") && html`<p class="note">Underlined in red: not supported by its source. Dotted: unchecked.</p>`}
  </div>`;
}

function Citations({ result, openCitation }) {
  if (!result.citations.length) return html`<${Empty}>The answer cites nothing.<//>`;
  return html`<ol class="citations">
    ${result.citations.map((one) => {
      const [tone, label] = citationTone(one);
      return html`<li key=${one.number}>
        <button class="citation" data-item onClick=${() => openCitation(one.number)}>
          <span class="citation-head"><b>${one.marker}</b> <span class="place">${one.place}</span></span>
          <q>${one.quote || "(no quote)"}</q>
          ${(tone !== "good" || one.verdict === "unsupported") && html`<span class="badges">${tone !== "good" && html`<${Badge} tone=${tone}>${label}<//>`}${one.verdict === "unsupported" && html`<${Verdict} status=${one.verdict} />`}</span>`}
        </button>
      </li>`;
    })}
  </ol>`;
}

function Claims({ claims }) {
  const open = claims.filter((one) => one.status !== "supported");
  if (!open.length) return null;
  return html`<details class="claims" open=${open.some((one) => one.status === "unsupported")}>
    <summary>${plural(open.length, "claim")} not supported or unchecked, of ${count(claims.length)}</summary>
    <ul class="plain">${open.map((one) => html`<li><${Verdict} status=${one.status} /> ${one.text} ${one.reason && html`<span class="dim">(${one.reason})</span>`}</li>`)}</ul>
  </details>`;
}

const USED = [["Calls", "calls"], ["Input", "input_tokens"], ["Cached", "cached_tokens"], ["Output", "output_tokens"], ["Thinking", "reasoning_tokens"]];

function Usage({ usage }) {
  if (!usage || !usage.length) return null;
  const shown = USED.filter(([, name]) => usage.some((one) => one[name]));
  return html`<div class="scroll-x"><table class="grid">
    <thead><tr><th>Model</th>${shown.map(([label]) => html`<th class="num">${label}</th>`)}<th class="num">Dollars</th></tr></thead>
    <tbody>${usage.map(
      (one) => html`<tr key=${one.model}><td class="name">${one.model}</td>
        ${shown.map(([, name]) => html`<td class="num">${count(one[name])}</td>`)}
        <td class="num">${dollars(one.cost_usd)}</td></tr>`,
    )}</tbody>
  </table></div>`;
}

function AnswerView({ overview, openCitation, go }) {
  const { result, run } = overview;
  const coverage = useMemo(() => coverageOf(overview), [overview]);
  if (!result) {
    return html`<section>
      <h2>Answer</h2>
      <${Empty}>${run.state === "running" ? "The run goes on. Its answer will be here." : "The run was interrupted before it had an answer."}<//>
      <h2>Coverage</h2><${Strip} coverage=${coverage} small />
    </section>`;
  }
  const notes = result.warnings;
  const refused = (result.gates || []).filter((gate) => gate.refusals.length);
  return html`<div class="answer-view">
    <section class="wide">
      <h2>Answer</h2>
      <${Answer} result=${result} openCitation=${openCitation} />
      <p class="note">${[result.figures, result.confidence && `confidence ${result.confidence}`].filter(Boolean).join("; ")}</p>
      <${Claims} claims=${result.claims} />
      ${notes.length > 0 && html`<h2>Notes</h2><ul class="plain notes">${notes.map((note) => html`<li>${note}</li>`)}</ul>`}
      ${refused.length > 0 &&
      html`<h2>Refused answers</h2><ul class="plain notes">${refused.flatMap((gate) => gate.refusals.map((why) => html`<li><b>${gate.name}</b> ${why}</li>`))}</ul>`}
      ${(result.unread || []).length > 0 && html`<details><summary>${plural(result.unread.length, "document")} not read, or only in part</summary><ul class="plain">${result.unread.map((name) => html`<li>${name}</li>`)}</ul></details>`}
      <h2>Coverage</h2>
      <div onClick=${() => go("coverage")}><${Strip} coverage=${coverage} small /></div>
      <h2>Calls</h2><${Usage} usage=${result.usage} />
    </section>
    <aside><h2>Citations</h2><${Citations} result=${result} openCitation=${openCitation} /></aside>
  </div>`;
}

// The place of a citation, or any stretch of the input.

function Lines({ text, from, tone }) {
  return text.split("\n").map(
    (line, index, all) =>
      html`<span class=${`line ${tone || ""}`} key=${from + index}>${index > 0 && html`<i class="line-number">${from + index}</i>`}${line}${index < all.length - 1 ? "\n" : ""}</span>`,
  );
}

function Source({ run, place, citation, claims }) {
  const { value, error } = usePiece(run, place.path);
  const quote = useRef(null);
  useEffect(() => {
    if (value && quote.current) quote.current.scrollIntoView({ block: "nearest" });
  }, [value]);
  const mine = citation ? citation.claims.map((index) => claims[index]).filter(Boolean) : [];
  const lineOf = (text) => text.split("\n").length - 1;
  return html`<div class="source">
    ${citation &&
    html`${citationTone(citation)[0] !== "good" && html`<p class="badges"><${Badge} tone=${citationTone(citation)[0]}>${citationTone(citation)[1]}<//></p>`}
      <p class="place">${citation.place}</p>
      ${mine.map((one) => html`<blockquote class=${`claim-box ${one.status}`}>${one.status !== "supported" && html`<${Verdict} status=${one.status} /> `}${one.text}${one.reason && html`<small>${one.reason}</small>`}</blockquote>`)}
      ${!mine.length && html`<p class="note">No claim of the answer names this source.</p>`}`}
    ${!value && html`<${Waiting} error=${error} />`}
    ${value && value.missing && html`<p class="note">${value.missing}</p>${citation && html`<pre class="page-text"><mark>${citation.quote}</mark></pre>`}`}
    ${value && !value.missing &&
    html`<p class="source-head">${[value.document, value.page && `page ${value.page}`, value.message && `message ${value.message}`, ...value.headings.slice(-1)].filter(Boolean).join(" · ")}</p>
      <pre class="page-text" tabindex="0">${value.is_start ? "" : html`<i class="gap">…</i>\n`}<i class="line-number">${value.line}</i><${Lines} text=${value.before} from=${value.line} /><mark ref=${quote}><${Lines} text=${value.text} from=${value.line + lineOf(value.before)} /></mark><${Lines} text=${value.after} from=${value.line + lineOf(value.before) + lineOf(value.text)} />${value.left_out > 0 && html`<i class="gap">… ${count(value.left_out)} more characters</i>`}${value.is_end ? "" : html`\n<i class="gap">…</i>`}</pre>`}
  </div>`;
}
