// Where the page's data comes from: the server that sent the page, or the page itself if it was exported.
// A piece of a run has a path (`overview`, `steps/0/0`), and the same value from either.

const embedded = JSON.parse(document.getElementById("data").textContent);
const isExport = Boolean(embedded.pieces);

class Missing extends Error {}

const cache = new Map();
const inFlight = new Map();

async function fetchJson(path) {
  let reply;
  try {
    reply = await fetch(embedded.api + path, { credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Error("The server does not answer. Is rlm view still running?");
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Missing(String(body.error || `The server replied ${reply.status}.`));
  return body;
}

function fromPage(run, path) {
  const pieces = embedded.pieces[run];
  if (pieces && Object.hasOwn(pieces, path)) return pieces[path];
  throw new Missing("This part was left out of the file. Open the run with rlm view to see it.");
}

// Return one piece of a run, from the cache if it is there.
function load(run, path) {
  const key = `${run} ${path}`;
  if (cache.has(key)) return Promise.resolve(cache.get(key));
  if (inFlight.has(key)) return inFlight.get(key);
  const asked = isExport
    ? Promise.resolve().then(() => fromPage(run, path))
    : fetchJson(`runs/${encodeURIComponent(run)}/${path}`);
  const kept = asked.then(
    (value) => {
      if (inFlight.get(key) === kept) {
        inFlight.delete(key);
        cache.set(key, value);
      }
      return value;
    },
    (error) => {
      inFlight.delete(key);
      throw error;
    },
  );
  inFlight.set(key, kept);
  return kept;
}

async function loadRuns() {
  return isExport ? embedded.runs : (await fetchJson("runs")).runs;
}

// Forget what may have changed of a run that goes on. Events, citations and texts do not change.
function forget(run) {
  for (const store of [cache, inFlight]) {
    for (const key of [...store.keys()]) {
      if (key.startsWith(`${run} `) && !/ (event|place|span)\//.test(key)) store.delete(key);
    }
  }
}

// Call `changed(version, state)` whenever the journal of the run grew. Return a function that stops it.
function follow(run, changed, lost) {
  if (isExport) return () => {};
  const source = new EventSource(`${embedded.api}runs/${encodeURIComponent(run)}/live`);
  source.onmessage = (event) => {
    const change = JSON.parse(event.data);
    changed(change.version, change.state);
  };
  source.addEventListener("end", () => source.close());
  source.onerror = () => lost(source.readyState === EventSource.CLOSED);
  return () => source.close();
}
