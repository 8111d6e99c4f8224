// Python code as coloured pieces of text.

const PYTHON = new RegExp(
  [
    /(?<comment>#[^\n]*)/,
    /(?<string>(?:\b[rbfuRBFU]{1,2})?(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /(?<number>\b(?:0[xob][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:e[+-]?\d+)?)\b)/,
    /(?<keyword>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/,
    /(?<call>\b[A-Za-z_]\w*(?=\())/,
  ]
    .map((one) => one.source)
    .join("|"),
  "g",
);

function pieces(text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(PYTHON)) {
    if (match.index > at) found.push(["", text.slice(at, match.index)]);
    found.push([Object.keys(match.groups).find((name) => match.groups[name] !== undefined), match[0]]);
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push(["", text.slice(at)]);
  return found;
}

function Code({ text }) {
  const parts = useMemo(() => (text.length > 20_000 ? [["", text]] : pieces(text)), [text]);
  return html`<code>${parts.map(([kind, piece]) => (kind ? html`<span class=${`py-${kind}`}>${piece}</span>` : piece))}</code>`;
}
