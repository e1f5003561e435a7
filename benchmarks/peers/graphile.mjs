// Graphile Worker at the settings of its own performance page (batched completion, 24 concurrent jobs) and a longer local queue.
// It speaks the protocol that protocol.py describes.
import { EventEmitter } from "node:events";
import { openSync, readSync, writeSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.env.BENCH_MODULES + "/");
const { makeWorkerUtils, run } = require("graphile-worker");
const { Logger } = require("graphile-worker");

const [command, url, ...rest] = process.argv.slice(2);
const concurrency = Number(process.env.BENCH_CONCURRENCY ?? 24);
const localQueueSize = Number(process.env.BENCH_LOCAL_QUEUE ?? 1000);
const completeDelay = Number(process.env.BENCH_COMPLETE_DELAY ?? 0);
const logger = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(message + "\n");
});
const say = (message) => writeSync(1, JSON.stringify(message) + "\n");
const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC, as in Python
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function setup() {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.release();
}

async function enqueue(kind, count) {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  const jobs = Array.from({ length: count }, (_, n) => ({ identifier: kind, payload: { n } }));
  const started = now();
  await utils.addJobs(jobs);
  const seconds = Number(now() - started) / 1e9;
  await utils.release();
  return seconds;
}

async function ping(count) {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  for (let i = 0; i < count; i++) {
    await pause(5 + Math.random() * 10);
    await utils.addJob("ping", { sent: now().toString() });
  }
  await utils.release();
}

function counting() {
  // Node has no mmap: a timer writes the count, often enough for the driver and rarely enough for the worker.
  const file = openSync(`${process.env.BENCH_COUNTERS}/${process.pid}`, "w+");
  const bytes = Buffer.alloc(8);
  const counter = { count: 0, latencies: [] };
  const write = () => {
    bytes.writeBigInt64LE(BigInt(counter.count));
    writeSync(file, bytes, 0, 8, 0);
  };
  write();
  setInterval(write, 2);
  return counter;
}

async function work(kind) {
  const counter = counting();
  const taskList = {
    noop: async () => void counter.count++,
    ping: async ({ sent }) => {
      counter.latencies.push(Number(now() - BigInt(sent)));
      counter.count++;
    },
  };
  const events = new EventEmitter();
  events.setMaxListeners(0);
  events.once("worker:getJob:start", () => say({ event: "started", ns: Number(now()) }));
  say({ event: "ready" });
  readSync(0, Buffer.alloc(64));
  process.stdin.on("end", () => {
    say({ event: "stopped", latencies_ns: counter.latencies });
    process.exit(0);
  });
  process.stdin.resume();
  const runner = await run({
    preset: {
      worker: {
        connectionString: url,
        concurrentJobs: concurrency,
        maxPoolSize: concurrency + 1,
        localQueue: { size: localQueueSize },
        completeJobBatchDelay: completeDelay,
        failJobBatchDelay: completeDelay,
      },
    },
    logger,
    events,
    taskList,
    noHandleSignals: true,
  });
  await runner.promise;
}

if (command === "setup") say({ event: "done", ...(await setup()) });
else if (command === "enqueue") say({ event: "done", seconds: await enqueue(rest[0], Number(rest[1])) });
else if (command === "ping") say({ event: "done", ...(await ping(Number(rest[0]))) });
else if (command === "work") await work(rest[0]);
else throw new Error(`unknown command ${command}`);
