// A worker for jobpool in JavaScript: Node 18 or newer, Deno or Bun, without any package.
//   JOBPOOL_URL=http://127.0.0.1:8420 JOBPOOL_TOKEN=… JOBPOOL_QUEUES=thumbnails node worker.mjs
// With JOBPOOL_ONCE=1 it ends when there is nothing to do.
import process from "node:process";
import { randomUUID } from "node:crypto";

class GiveUp extends Error {}

// What each job type does: gets the payload, returns the result. An error means another try later; a GiveUp does not.
const jobs = {
  async thumb(payload, job) {
    await job.progress(0.5, "half of it");
    return { made: payload.path ?? null, by: "javascript" };
  },
};

const url = (process.env.JOBPOOL_URL ?? "http://127.0.0.1:8420").replace(/\/$/, "");
const token = process.env.JOBPOOL_TOKEN;
const queues = (process.env.JOBPOOL_QUEUES ?? "").split(",").filter(Boolean);
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

if (!token) {
  console.error("set JOBPOOL_TOKEN");
  process.exit(1);
}

/** Status and document of the answer; status 0 when there was none. */
async function post(path, body, headers = {}) {
  try {
    const answer = await fetch(url + path, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...headers },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await answer.text();
    return [answer.status, text ? JSON.parse(text) : null];
  } catch {
    return [0, null];
  }
}

/** The holder's last word must arrive: it is repeated until the server has taken or refused it. */
async function tell(path, body) {
  for (let wait = 1; ; wait = Math.min(wait * 2, 30)) {
    const [status] = await post(path, body);
    if (status >= 200 && status < 500 && status !== 429) return; // 409: somebody else has the job
    await sleep(wait);
  }
}

/** The next job, or null. A repeated claim with the same key is the same job, not a second one. */
async function claim() {
  const headers = { "Idempotency-Key": randomUUID() };
  const body = { wait: 20, ...(queues.length ? { queues } : {}) };
  for (;;) {
    const [status, job] = await post("/jobs/claim", body, headers);
    if (status === 200) return job;
    if (status === 204) return null;
    if (status === 401 || status === 403) throw new Error(job.detail);
    await sleep(2); // the server or its store is away
  }
}

async function run(job) {
  const path = `/jobs/${job.id}`;
  const held = { claim_token: job.claim_token };
  const beat = async (more = {}) => {
    const [status, answer] = await post(`${path}/heartbeat`, { ...held, ...more });
    if (status === 409) throw new Error("the job was given to another worker");
    if (answer?.cancel_requested) throw new GiveUp("cancelled");
  };
  const keeper = setInterval(() => beat().catch(() => {}), (job.lease_seconds / 3) * 1000);
  try {
    const work = jobs[job.type];
    if (!work) throw new GiveUp(`this worker does not know ${job.type}`);
    const progress = (fraction, note = "") => beat({ progress: fraction, note });
    const result = await work(job.payload, { ...job, progress });
    await tell(`${path}/complete`, { ...held, result: result ?? null });
  } catch (error) {
    await tell(`${path}/fail`, {
      ...held,
      error: String(error.message),
      exception: error.constructor.name,
      fatal: error instanceof GiveUp,
    });
  } finally {
    clearInterval(keeper);
  }
}

for (;;) {
  const job = await claim();
  if (job) await run(job);
  else if (process.env.JOBPOOL_ONCE) break;
}
