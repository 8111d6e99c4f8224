// A run, folded from the events of its journal: the same for a run that is loaded and for one that goes on.

const KINDS = { charge: "a failed call was charged", limit: "limit", warning: "note", kernel_died: "kernel", compaction: "folded", resumed: "resumed", interrupted: "interrupted", diverged: "diverged", planned: "plan" };
const MOST_NODES = 20_000;

const text = (value, size = 8_000) => (value == null ? "" : plain(value).slice(0, size));
const number = (value) => (typeof value === "number" && isFinite(value) ? value : 0);
const list = (value) => (Array.isArray(value) ? value : []);
const record = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});
const spansOf = (value) => list(value).filter((one) => Array.isArray(one) && one.length === 2 && one.every(Number.isInteger));
const plus = (sum, cost) => (sum === null || typeof cost !== "number" ? null : sum + cost);

// `stretches` map the text of a node to that of the node above: null means that both have the same text.
function newNode(index, name, kind, parent, depth, at) {
  return { index, name, kind, parent, depth, at, title: name.split("/").pop(), model: "", error: "", answer: "", stretches: kind === "sub_rlm" ? [] : null, steps: [], children: [], asked: new Map(), rounds: 0, failed: 0, tokens: 0, cost_usd: 0, has_ended: false };
}

const newRun = () => ({ version: 0, nodes: [newNode(0, "", "run", null, 0, 0)], named: new Map([["", 0]]), lanes: { scanned: [], read: [], cited: [], sent: [], answered: [], failed: [] }, costs: [], spent: 0 });

function nodeOf(state, name, at) {
  if (state.named.has(name)) return state.nodes[state.named.get(name)];
  if (state.nodes.length >= MOST_NODES) return state.nodes[0];
  const cut = name.lastIndexOf("/");
  const parent = nodeOf(state, name.slice(0, Math.max(0, cut)), at);
  // A part of a job is named for what it does, a sub-RLM by a hash and its number.
  const node = newNode(state.nodes.length, name, name.slice(cut + 1).includes(".") ? "sub_rlm" : "part", parent.index, parent.depth + 1, at);
  state.nodes.push(node);
  state.named.set(name, node.index);
  const round = parent.steps.findLast((step) => step.kind === "round");
  if (round) round.nodes.push(node.index);
  return node;
}

function newStep(kind, seq, at, more) {
  return { kind, seq, at, number: 0, label: "", title: "", model: "", reply: "", code: "", prose: "", output: "", stderr: "", status: "", error: "", violation: "", cell_seq: 0, cell_at: 0, cell_seconds: 0, seconds: 0, prompt_tokens: 0, tokens_in: 0, tokens_out: 0, thinking: 0, cost_usd: 0, variables: [], sections: [], actions: [], helpers: [], children: [], failed: 0, cached: 0, children_cost: 0, nodes: [], ...more };
}

// The step of a round. A block without a call (of a damaged journal) gets one.
function roundOf(node, { seq, at, data }) {
  const found = node.steps.findLast((step) => step.kind === "round" && step.number === number(data.round));
  if (found) return found;
  node.steps.push(newStep("round", seq, at, { number: number(data.round) }));
  return node.steps.at(-1);
}

function spend(state, node, { at, data }) {
  const usage = record(data.usage);
  node.tokens += number(usage.input_tokens) + number(usage.output_tokens);
  node.cost_usd = plus(node.cost_usd, data.cost_usd === undefined ? 0 : data.cost_usd);
  state.spent += number(data.cost_usd);
  state.costs.push([at, state.spent]);
}

function absolute(state, node, spans) {
  for (let at = node; at.parent !== null; at = state.nodes[at.parent]) {
    if (at.stretches === null) continue;
    spans = spans.flatMap(([start, end]) =>
      at.stretches.map(([from, origin, length]) => [Math.max(start, from) + origin - from, Math.min(end, from + length) + origin - from]).filter(([low, high]) => low < high),
    );
  }
  return spans;
}

const mark = (state, lane, node, spans) => state.lanes[lane] && state.lanes[lane].push(...absolute(state, node, spansOf(spans)));

function foldCall(state, node, event) {
  const { seq, at, data } = event;
  const usage = record(data.usage);
  const isRoot = data.role === "root";
  node.steps.push(newStep(isRoot ? "round" : "call", seq, at, {
    number: number(data.round), label: text(data.role, 40), title: isRoot ? "" : text(data.prompt, 400), model: text(data.model, 200), reply: text(data.reply), finish_reason: text(data.finish_reason, 40), seconds: number(data.seconds), prompt_tokens: number(data.prompt_tokens),
    tokens_in: number(usage.input_tokens), tokens_out: number(usage.output_tokens), thinking: number(usage.reasoning_tokens), cost_usd: data.cost_usd ?? null, sections: list(data.sections), actions: list(data.actions).slice(0, 20),
  }));
  if (isRoot) node.rounds++;
  node.model ||= text(data.model, 200);
  spend(state, node, event);
}

function foldCell(state, node, event) {
  const { data } = event;
  const step = roundOf(node, event);
  const result = record(data.result);
  const report = record(result.report);
  Object.assign(step, {
    code: text(data.code), prose: text(data.prose), output: [text(result.stdout), text(result.result)].filter(Boolean).join("\n"), stderr: text(result.stderr, 300), error: text(result.traceback || result.evalue), status: text(result.status, 40),
    cell_seq: event.seq, cell_at: event.at, cell_seconds: number(result.seconds), variables: list(report.changed).slice(0, 40).map((one) => text(`${one.name}: ${one.type}, ${one.size}`, 120)),
  });
  for (const lane of ["read", "scanned"]) mark(state, lane, node, report[lane]);
  for (const answer of list(data.answers)) if (record(answer).refusal) step.helpers.push({ seq: event.seq, name: "finalize", arguments: "", result: text(record(answer.refusal).reason, 300), ok: false });
}

function foldChild(state, node, event) {
  const { seq, at, data } = event;
  const key = text(data.asked || data.key || data.spans, 500);
  const known = data.error == null ? null : node.asked.get(key);
  // A reply that was rejected has two events: what it was, and why it was none.
  if (known && known.status !== "failed") {
    Object.assign(known, { status: "failed", error: text(data.error, 300), error_type: text(data.error_type, 60), error_seq: seq });
    known.step.failed++;
    node.failed++;
    return;
  }
  const usage = record(data.usage);
  const spans = spansOf(data.spans);
  let step = node.steps.findLast((one) => one.kind === "round" && one.number === number(data.round)) || node.steps.findLast((one) => one.kind === "children");
  if (!step) node.steps.push((step = newStep("children", seq, at, { number: number(data.round) })));
  const child = {
    seq, at, step, index: node.children.length, round: number(data.round), model: text(data.model, 200), prompt: text(data.prompt, 300), reply: text(data.reply, 300), spans, chars: spans.reduce((sum, [start, end]) => sum + end - start, 0), tokens_in: number(usage.input_tokens), tokens_out: number(usage.output_tokens),
    cost_usd: data.cost_usd === undefined ? 0 : data.cost_usd, seconds: number(data.seconds), status: data.error != null ? "failed" : data.cached ? "cached" : "ok", error: text(data.error, 300), error_type: text(data.error_type, 60), error_seq: 0,
  };
  step.children.push(child);
  step.cached += child.status === "cached";
  step.failed += child.status === "failed";
  node.failed += child.status === "failed";
  step.children_cost = plus(step.children_cost, child.cost_usd);
  node.asked.set(key, child);
  node.children.push(child);
  spend(state, node, event);
}

function noteOf(kind, data) {
  if (kind === "compaction") return `rounds 1 to ${data.last_round} were folded from ${data.tokens_before} to ${data.tokens_after} tokens`;
  if (kind === "kernel_died") return `the kernel died in round ${data.round}: ${text(data.reason, 300)}`;
  if (kind === "diverged") return `round ${data.round} diverged when it was re-run`;
  return text(data.questions || data.message || data.stop_reason || data.error, 400);
}

function fold(state, event) {
  const { seq, at, kind, data } = event;
  state.version = seq;
  const within = text(data.within, 2_000);
  const node = nodeOf(state, within, at);
  const below = () => nodeOf(state, within ? `${within}/${data.name}` : text(data.name, 500), at);
  if (kind === "run_started") Object.assign(node, { at, title: text(data.task, 400), model: text(record(data.settings).model, 200) });
  else if (kind === "sub_rlm") Object.assign(node, { kind, title: text(data.prompt, 400), model: text(data.model, 200), stretches: list(data.stretches).filter((one) => Array.isArray(one) && one.length === 3 && one.every(Number.isInteger)) });
  else if (kind === "part") below().title = text(data.title, 400);
  else if (kind === "sub_rlm_ended" || kind === "part_ended") {
    const ended = below();
    Object.assign(ended, { has_ended: true, error: text(data.error, 400), answer: text(data.answer, 2_000) });
    for (const [lane, spans] of Object.entries(record(data.seen))) mark(state, lane === "looked" ? "scanned" : lane, ended, spans);
  } else if (kind === "model_call") foldCall(state, node, event);
  else if (kind === "child") foldChild(state, node, event);
  else if (kind === "cell") foldCell(state, node, event);
  else if (kind === "tool") {
    const refused = list(data.refused);
    roundOf(node, event).helpers.push({ seq, name: text(data.tool, 100), arguments: text(data.arguments, 300), result: text(refused.length ? refused.at(-1) : data.value, 300), ok: !refused.length });
  } else if (kind === "limit" && data.violation) roundOf(node, event).violation = text(data.violation, 100);
  else if (kind === "finished") {
    node.has_ended = true;
    mark(state, "cited", node, data.cited);
  } else {
    if (kind === "charge") spend(state, node, event);
    node.steps.push(newStep("note", seq, at, { label: kind, title: noteOf(kind, data) }));
  }
}

// Coverage: for each lane how full each of 600 stretches of the input is, and the documents.

function joined(spans) {
  const found = [];
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else found.push([start, end]);
  }
  return found;
}

function coverageOf({ state, input, run }) {
  const chars = input ? input.chars : number(run.chars);
  const buckets = Math.max(1, Math.min(600, chars));
  const width = chars / buckets;
  const lanes = Object.fromEntries(Object.entries(state.lanes).map(([lane, spans]) => [lane, [...spans]]));
  for (const node of state.nodes) {
    for (const child of node.children) {
      const spans = absolute(state, node, child.spans);
      lanes.sent.push(...spans);
      lanes[child.status === "failed" ? "failed" : "answered"].push(...spans);
    }
  }
  const documents = (input ? input.documents : []).map((one) => ({ ...one }));
  const coverage = { chars, buckets, fills: {}, totals: {}, documents };
  for (const [lane, all] of Object.entries(lanes)) {
    const spans = joined(all);
    const filled = new Array(buckets).fill(0);
    coverage.totals[lane] = spans.reduce((sum, [start, end]) => sum + end - start, 0);
    let at = 0;
    for (const one of documents) one[lane] = 0;
    for (const [start, end] of spans) {
      for (let bucket = Math.max(0, Math.floor(start / width)); bucket < Math.min(buckets, Math.ceil(end / width)); bucket++) filled[bucket] += Math.min(end, (bucket + 1) * width) - Math.max(start, bucket * width);
      while (at < documents.length && documents[at].end <= start) at++;
      for (let which = at; which < documents.length && documents[which].start < end; which++) documents[which][lane] += Math.min(end, documents[which].end) - Math.max(start, documents[which].start);
    }
    // A stretch of which anything was touched is never shown as empty.
    coverage.fills[lane] = filled.map((one) => (one > 0 ? Math.min(9, Math.max(1, Math.round((9 * one) / width))) : 0));
  }
  return coverage;
}
