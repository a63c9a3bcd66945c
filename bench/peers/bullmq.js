// One process of BullMQ, with the actions of bench/peers/__main__.py:
//   fill COUNT | work CAPACITY [RECOVERY_S] | send COUNT READY
// and the no-op task's probe, as in bench/peers/probe.py.
const fs = require("fs");
const { createRequire } = require("module");
const { Queue, Worker } = createRequire(process.env.BENCH_BULLMQ + "/")("bullmq");

const QUEUE = "bench";
const TASK = { removeOnComplete: true, removeOnFail: true };
const BATCH = 1000;
const REST_MS = [6, 14]; // between two single sends, as REST_S in bench/peers/__main__.py

const address = new URL(process.env.BENCH_REDIS_URL);
const connection = {
  host: address.hostname,
  port: Number(address.port),
  password: address.password,
  db: Number(address.pathname.slice(1) || 0),
  maxRetriesPerRequest: null, // BullMQ demands it of a worker's connection
};
// CLOCK_MONOTONIC, as Python's time.monotonic_ns(): one clock for all processes of a machine
const nowNs = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function report(fields) {
  fs.writeSync(1, JSON.stringify(fields) + "\n");
  process.exit(0); // at once, so that no shutdown is measured
}

/** CPU time of this process and of the server so far. Linux counts in ticks of 10 ms. */
function cpuSeconds(server) {
  const stat = fs.readFileSync(`/proc/${server}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 1).trim().split(" ");
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + (Number(fields[11]) + Number(fields[12])) / 100;
}

const PROBES = {
  throughput(warm, count, seconds, server) {
    const first = Number(warm), last = first + Number(count), limitNs = Number(seconds) * 1e9;
    let n = 0, start = 0, spent = 0;
    return () => {
      n += 1;
      if (n < first) return;
      if (n === first) {
        spent = cpuSeconds(server);
        start = nowNs();
        return;
      }
      const elapsed = nowNs() - start;
      if (n >= last || elapsed > limitNs)
        report({ count: n - first, seconds: elapsed / 1e9, cpu_seconds: cpuSeconds(server) - spent });
    };
  },
  latency(count, path) {
    const delays = [];
    return (sentNs) => {
      const now = nowNs();
      if (!sentNs) return fs.closeSync(fs.openSync(path, "a"));
      delays.push(now - sentNs);
      if (delays.length === Number(count)) report({ delays_ns: delays });
    };
  },
  survival(path) {
    return () => {
      if (fs.existsSync(path)) report({ ran_again: true });
      fs.closeSync(fs.openSync(path, "wx"));
      return new Promise(() => {}); // until the SIGKILL
    };
  },
};

const ACTIONS = {
  async fill(count) {
    const queue = new Queue(QUEUE, { connection });
    for (let left = Number(count); left > 0; left -= BATCH) {
      const tasks = Array.from({ length: Math.min(BATCH, left) }, () => ({ name: "noop", data: { sentNs: 0 }, opts: TASK }));
      await queue.addBulk(tasks);
    }
    await queue.close();
  },
  async send(count, ready) {
    const queue = new Queue(QUEUE, { connection });
    await queue.add("noop", { sentNs: 0 }, TASK);
    while (!fs.existsSync(ready)) await sleep(10);
    for (let n = 0; n < Number(count); n += 1) {
      await sleep(REST_MS[0] + Math.random() * (REST_MS[1] - REST_MS[0]));
      await queue.add("noop", { sentNs: nowNs() }, TASK);
    }
  },
  async work(capacity, recoveryS) {
    const [kind, ...rest] = process.env.BENCH_PROBE.split(":");
    const ran = PROBES[kind](...rest);
    const recovery = recoveryS ? { lockDuration: recoveryS * 1000, stalledInterval: 1000 } : {};
    const options = { connection, concurrency: Number(capacity), maxStalledCount: 3, ...recovery };
    const worker = new Worker(QUEUE, async (task) => ran(task.data.sentNs), options);
    worker.on("error", (error) => console.error(error));
  },
};

const [action, ...given] = process.argv.slice(2);
ACTIONS[action](...given).catch((error) => {
  console.error(error);
  process.exit(1);
});
