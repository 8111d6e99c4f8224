// Where the page's data comes from: the server that sent the page, or the page itself if it was exported.
// A piece of a run has a path (`overview`, `events/0`), and the same value from either.

const embedded = JSON.parse(document.getElementById("data").textContent);
const isExport = Boolean(embedded.pieces);

const cache = new Map();

async function fetchJson(path) {
  let reply;
  try {
    reply = await fetch(embedded.api + path, { credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Error("The server does not answer. Is rlm view still running?");
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(String(body.error || `The server replied ${reply.status}.`));
  return body;
}

async function piece(run, path) {
  if (!isExport) return fetchJson(`runs/${encodeURIComponent(run)}/${path}`);
  const pieces = embedded.pieces[run];
  if (pieces && Object.hasOwn(pieces, path)) return pieces[path];
  throw new Error("This part was left out of the file. Open the run with rlm view to see it.");
}

// Return an event or a place of a run, which never changes, from the cache if it is there.
function load(run, path) {
  const key = `${run} ${path}`;
  if (!cache.has(key)) {
    const asked = piece(run, path);
    asked.catch(() => cache.delete(key));
    cache.set(key, asked);
  }
  return cache.get(key);
}

async function loadRuns() {
  return isExport ? embedded.runs : (await fetchJson("runs")).runs;
}

// Bring a run up to date: fold the events that are new, and return it with its overview.
async function readRun(run, state) {
  const overview = await piece(run, "overview");
  for (let after = state.version; after !== null; ) {
    const page = await piece(run, `events/${after}`).catch((error) => {
      if (!isExport) throw error;
      return { events: [], next: null };
    });
    for (const event of page.events) if (event.seq > state.version) fold(state, event);
    after = page.next;
  }
  return { ...overview, input: overview.text, state, nodes: state.nodes, version: state.version };
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

// A run that is kept up to date while it is shown.
function useRun(run) {
  const [shown, setShown] = useState({ overview: null, error: null, lost: false });
  useEffect(() => {
    const state = newRun();
    let [wanted, isBusy, isOld] = [true, false, false];
    const read = async () => {
      if (isBusy) return void (isOld = true);
      isBusy = true;
      try {
        const overview = await readRun(run, state);
        if (wanted) setShown({ overview, error: null, lost: false });
      } catch (error) {
        if (wanted) setShown((old) => ({ ...old, error }));
      }
      isBusy = false;
      if (isOld && wanted) setTimeout(read, RELOAD_MS);
      isOld = false;
    };
    read();
    let first = true;
    const stop = follow(run, (version) => {
      // The first message mostly says what the page has just loaded.
      if (!first || version !== state.version) read();
      first = false;
    }, (lost) => wanted && setShown((old) => ({ ...old, lost })));
    return () => {
      wanted = false;
      stop();
    };
  }, [run]);
  return shown;
}
