// The keyboard: j and k walk through whatever list is shown, the arrows through the tabs.

const KEYS = [
  ["j, k", "next, previous item (also arrow down, arrow up on an item)"],
  ["Enter", "open the item"],
  ["← →", "previous, next tab; previous, next citation in the panel"],
  ["1 … 5", "a tab"],
  ["n, p", "next, previous round"],
  ["/", "search"],
  ["Esc", "close the panel, the search or this list"],
  ["g", "the list of runs"],
  ["t", "light or dark"],
  ["?", "this list"],
];

function Help({ close }) {
  return html`<div class="overlay" onClick=${close}><div class="search help" role="dialog" aria-label="Keys"><h3>Keys</h3>
    <dl class="facts wide">${KEYS.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <button class="more" onClick=${close}>Close</button></div></div>`;
}

function isVisible(element) {
  return element.offsetParent !== null || element.getClientRects().length > 0;
}

// Move the focus to the next item below or above, within the topmost dialog if one is open.
function walk(by) {
  const scopes = document.querySelectorAll(".overlay, .panel");
  const overlay = document.querySelector(".overlay");
  const scope = overlay || (scopes.length && scopes[0].contains(document.activeElement) && scopes[0].querySelector("[data-item]") ? scopes[0] : document);
  const items = [...scope.querySelectorAll("[data-item]")].filter((one) => isVisible(one) && !one.disabled && (scope !== document || !one.closest(".panel, .tree")));
  if (!items.length) return;
  const at = items.indexOf(document.activeElement);
  const near = at >= 0 ? at + by : items.findIndex((one) => one.getBoundingClientRect().top >= 60);
  const next = items[Math.max(0, Math.min(items.length - 1, near < 0 ? 0 : near))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function walkSteps(by) {
  const steps = [...document.querySelectorAll("article.step")];
  const at = steps.findIndex((one) => one.getBoundingClientRect().top > 130);
  const now = at < 0 ? steps.length - 1 : by > 0 ? at : at - 2 < 0 ? 0 : at - 2;
  if (steps[now]) steps[now].scrollIntoView({ block: "start" });
}

// Call the action of a key, unless somebody types or holds a modifier.
function useKeys(actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const types = event.target.matches && event.target.matches("input, select, textarea");
      if (types && event.key !== "Escape" && !(event.key.startsWith("Arrow") && event.target.closest(".search"))) return;
      if (types && (event.key === "ArrowLeft" || event.key === "ArrowRight")) return;
      const onItem = event.target.matches && (event.target.matches("[data-item]") || event.target.closest(".search"));
      if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !onItem) return;
      const action = latest.current[event.key];
      if (action) {
        event.preventDefault();
        action();
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
