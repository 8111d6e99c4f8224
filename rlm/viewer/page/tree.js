// The tree of the run, its parts and its sub-RLMs.

const TREE_SHOWN = 1_000;

function treeOrder(nodes) {
  const below = new Map();
  for (const node of nodes) {
    if (!below.has(node.parent)) below.set(node.parent, []);
    below.get(node.parent).push(node);
  }
  const order = [];
  const waiting = [...(below.get(null) || [])].reverse();
  while (waiting.length) {
    const node = waiting.pop();
    order.push(node);
    waiting.push(...[...(below.get(node.index) || [])].reverse());
  }
  return order;
}

const nodeTone = (node) => (node.error ? "bad" : node.has_ended ? "good" : "live");

function Tree({ overview, selected, onSelect }) {
  const order = useMemo(() => treeOrder(overview.nodes), [overview]);
  const total = overview.nodes.reduce((sum, node) => Math.max(sum, node.cost_usd || 0), 0);
  return html`<nav class="tree" aria-label="Tree of sub-RLMs">
    <ul>
      ${order.slice(0, TREE_SHOWN).map(
        (node) => html`<li key=${node.index}>
          <button data-item aria-current=${node.index === selected ? "true" : undefined} style=${{ paddingLeft: `${0.5 + Math.min(node.depth, 8) * 0.9}rem` }} onClick=${() => onSelect(node.index)} title=${node.error || nameOf(node)}>
            <i class=${`dot ${nodeTone(node)}`}></i>
            <span class="tree-name">${nameOf(node)}</span>
            <span class="tree-facts">${[node.rounds && plural(node.rounds, "round"), node.children.length > 0 && plural(node.children.length, "child", "children"), node.failed && `${count(node.failed)} failed`, node.cost_usd !== 0 && dollars(node.cost_usd)].filter(Boolean).join(" · ") || "no calls"}</span>
            ${total > 0 && html`<i class="tree-cost" style=${{ width: `${(100 * (node.cost_usd || 0)) / total}%` }}></i>`}
          </button>
        </li>`,
      )}
    </ul>
    ${order.length > TREE_SHOWN && html`<p class="note">${count(order.length - TREE_SHOWN)} more are left out.</p>`}
  </nav>`;
}
