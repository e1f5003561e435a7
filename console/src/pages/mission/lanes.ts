// A mission's phases as spans of time, read from its events: one lane each, one span for each try.
import type { Schemas } from "../../api/client";

export type TimelineEvent = Schemas["TimelineEvent"];
export type Lane = "queue" | "session" | "scrape" | "writer";

export interface Span {
  lane: Lane;
  from: number;
  to: number;
  failed: boolean;
  open: boolean;
}

export const LANES: Lane[] = ["queue", "session", "scrape", "writer"];

const OPENS: Record<string, Lane> = { mission_queued: "queue", session_started: "session", scrape_started: "scrape", writer_started: "writer" };
const CLOSES: Record<string, [Lane, boolean]> = {
  mission_assigned: ["queue", false],
  session_ready: ["session", false],
  session_failed: ["session", true],
  scrape_completed: ["scrape", false],
  scrape_empty: ["scrape", false],
  scrape_failed: ["scrape", true],
  writer_completed: ["writer", false],
  writer_failed: ["writer", true],
};
const ENDS = new Set(["mission_completed", "mission_failed", "mission_canceled"]);

export function spansOf(events: readonly TimelineEvent[], now: number): Span[] {
  const spans: Span[] = [];
  const open = new Map<Lane, Span>();
  const close = (lane: Lane, at: number, failed: boolean) => {
    const span = open.get(lane);
    if (!span) return;
    Object.assign(span, { to: at, failed, open: false });
    open.delete(lane);
  };
  for (const { event, timestamp } of events) {
    const at = Date.parse(timestamp);
    const closed = CLOSES[event];
    if (closed) close(closed[0], at, closed[1]);
    if (ENDS.has(event)) for (const lane of LANES) close(lane, at, event === "mission_failed");
    const lane = OPENS[event];
    if (!lane) continue;
    for (const other of LANES) close(other, at, false);
    const span: Span = { lane, from: at, to: now, failed: false, open: true };
    open.set(lane, span);
    spans.push(span);
  }
  return spans;
}
