// The page's side of bench/plugins/engines/browser/page.py: answers its questions by the engine that `start` names.
import { burst, packed, unpacked } from './shared/shared.mjs';

const MOST_LINES = 1e6; // a trace has a line for each node and inference
const LOOK_MS = 30;
const NUM_TIMERS = 8;
const sessions = new Map(); // by number: the model, and the requests that are kept
const lines = []; // what was written to the console since the last question
let engine;

for (const name of ['error', 'warn', 'log', 'info', 'debug']) {
  const write = console[name].bind(console);
  console[name] = (...words) => {
    lines.push(words.map(String).join(' '));
    if (lines.length > MOST_LINES) lines.shift();
    write(...words);
  };
}

const now = () => Math.round(performance.now() * 1e6);

// Nanoseconds between two ticks of the clock, the least that was seen.
function tick() {
  let last = now();
  let least = Infinity;
  for (const end = last + LOOK_MS * 1e6; last < end;) {
    const next = now();
    if (next > last) least = Math.min(least, next - last);
    last = next;
  }
  return least;
}

// Milliseconds that timers of no delay take one after the other, of which a page that is slowed down has one a second.
async function timersMs() {
  const start = performance.now();
  for (let number = 0; number < NUM_TIMERS; number++) await new Promise((done) => setTimeout(done, 0));
  return performance.now() - start;
}

async function fetched(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.arrayBuffer();
}

async function arraysOf({ arrays, number }) {
  return arrays.length ? unpacked(arrays, await fetched(`data/${number}`)) : {};
}

async function timed(infer, arrays) {
  const start = now();
  const outputs = await infer(arrays);
  return [now() - start, outputs];
}

const operations = {
  async start({ engine: name, threads, provider }) {
    const start = now();
    engine = await import(`./${name}.mjs`);
    const about = await engine.load({ threads, provider, packages: new URL('packages/', location).href });
    const ns = loadedNs + now() - start;
    return { ns, about: about ?? {}, tick_ns: tick(), timers_ms: await timersMs(), isolated: crossOriginIsolated };
  },
  async open({ session, provider, threads, inputs, outputs }) {
    const start = now();
    const content = new Uint8Array(await fetched(`artifact/${session}`));
    const model = await engine.open(content, { provider, threads, inputs, outputs, lines });
    const ns = now() - start;
    sessions.set(session, { model, kept: new Map() });
    return { ns, ...model.facts };
  },
  async run(question) {
    const { model } = sessions.get(question.session);
    const arrays = await arraysOf(question);
    const [ns, outputs] = await timed(model.infer, arrays);
    const [listed, parts] = packed(outputs);
    await fetch(`data/${question.number}`, { method: 'POST', body: new Blob(parts) });
    return { ns, arrays: listed };
  },
  async keep(question) {
    sessions.get(question.session).kept.set(question.request, await arraysOf(question));
    return {};
  },
  async burst({ session, request, ...plan }) {
    const { model, kept } = sessions.get(session);
    const start = now();
    const samples = await burst(model.infer, kept.get(request), plan, now);
    return { ...samples, span_ns: now() - start };
  },
  async close({ session }) {
    const { model } = sessions.get(session) ?? {}; // none where opening failed in its place
    sessions.delete(session);
    await model?.release?.();
    return {};
  },
  async profile(question) {
    const content = new Uint8Array(await fetched(`artifact/${question.session}`));
    return { trace: await engine.profile(content, await arraysOf(question), { ...question, lines }) };
  },
  async work({ ms }) { // for the worker to see which process is this page's
    for (const end = performance.now() + ms; performance.now() < end;);
    return {};
  },
  async nothing() {
    return {};
  },
};

globalThis.ask = async (question) => {
  let answer;
  lines.length = 0;
  try {
    answer = await operations[question.operation](question);
  } catch (error) {
    const text = typeof error === 'number' ? `exception ${error} of C++` : String(error?.message ?? error);
    answer = { error: text, lines: lines.slice() };
  }
  return { ...answer, visibility: document.visibilityState, clock_ns: now() };
};

const loadedNs = now(); // since the navigation began
