// A mission's phases as spans of time, read from its events: a lane for each phase of the first try, then one for each retry.
import type { Schemas } from "../../api/client";

export type TimelineEvent = Schemas["TimelineEvent"];
export type Lane = "queue" | "session" | "scrape" | "writer";

export interface Span {
  lane: Lane;
  retry: number;
  from: number;
  to: number;
  failed: boolean;
  open: boolean;
}

export interface Timeline {
  spans: Span[];
  // When it was heard to make progress.
  ticks: number[];
}

export const LANES: Lane[] = ["queue", "session", "scrape", "writer"];

const OPENS: Record<string, Lane> = {
  mission_queued: "queue",
  retry_triggered: "queue",
  mission_returned: "queue",
  mission_assigned: "session",
  scrape_started: "scrape",
  writer_started: "writer",
};
// Each ends these lanes, well or not.
const CLOSES: Record<string, [lanes: Lane[], failed: boolean]> = {
  mission_queued: [LANES, false],
  mission_assigned: [["queue"], false],
  mission_returned: [["session", "scrape"], false],
  retry_triggered: [LANES, true],
  session_failed: [["session", "scrape"], true],
  scrape_started: [["queue", "scrape"], false],
  scrape_completed: [["session", "scrape"], false],
  scrape_empty: [["session", "scrape"], false],
  scrape_failed: [["session", "scrape"], true],
  writer_started: [["queue", "session", "scrape", "writer"], false],
  writer_completed: [["writer"], false],
  writer_failed: [["writer"], true],
  mission_completed: [LANES, false],
  mission_canceled: [LANES, false],
  mission_failed: [LANES, true],
};
const TICKS = new Set(["scrape_progress", "writer_progress"]);

function closeSpans(open: Map<Lane, Span>, event: string, at: number): void {
  const [closed, failed] = CLOSES[event] ?? [[], false];
  for (const lane of closed) {
    const span = open.get(lane);
    if (span) Object.assign(span, { to: at, failed: failed && lane !== "queue", open: false });
    open.delete(lane);
  }
}

export function timelineOf(events: readonly TimelineEvent[], now: number): Timeline {
  const found: Timeline = { spans: [], ticks: [] };
  const open = new Map<Lane, Span>();
  let retry = 0;
  for (const { event, timestamp } of events) {
    const at = Date.parse(timestamp);
    if (TICKS.has(event)) found.ticks.push(at);
    closeSpans(open, event, at);
    if (event === "retry_triggered" || (event === "mission_queued" && found.spans.length))
      retry += 1;
    const lane = OPENS[event];
    if (!lane) continue;
    const span: Span = { lane, retry, from: at, to: now, failed: false, open: true };
    open.set(lane, span);
    found.spans.push(span);
  }
  return found;
}

export const retriesIn = (spans: readonly Span[]): number =>
  Math.max(0, ...spans.map((span) => span.retry));
