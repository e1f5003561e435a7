// The phases of a mission as time spans, computed from its events.
import type { Schemas } from "../../api/client";

export type TimelineEvent = Schemas["TimelineEvent"];
export type Phase = "queue" | "session" | "scrape" | "writer";

export interface Span {
  phase: Phase;
  retry: number;
  from: number;
  to: number;
  failed: boolean;
  open: boolean;
}

export interface Timeline {
  spans: Span[];
  // Times of progress events.
  ticks: number[];
}

export const PHASES: Phase[] = ["queue", "session", "scrape", "writer"];

const STARTED_BY: Record<string, Phase> = {
  mission_queued: "queue",
  retry_triggered: "queue",
  mission_returned: "queue",
  mission_assigned: "session",
  scrape_started: "scrape",
  writer_started: "writer",
};
// The phases that an event ends, and whether they failed.
const ENDED_BY: Record<string, [phases: Phase[], failed: boolean]> = {
  mission_queued: [PHASES, false],
  mission_assigned: [["queue"], false],
  mission_returned: [["session", "scrape"], false],
  retry_triggered: [PHASES, true],
  session_failed: [["session", "scrape"], true],
  scrape_started: [["queue", "scrape"], false],
  scrape_completed: [["session", "scrape"], false],
  scrape_empty: [["session", "scrape"], false],
  scrape_failed: [["session", "scrape"], true],
  writer_started: [["queue", "session", "scrape", "writer"], false],
  writer_completed: [["writer"], false],
  writer_failed: [["writer"], true],
  mission_completed: [PHASES, false],
  mission_canceled: [PHASES, false],
  mission_failed: [PHASES, true],
};
const TICKS = new Set(["scrape_progress", "writer_progress"]);

function closeSpans(open: Map<Phase, Span>, event: string, at: number): void {
  const [closed, failed] = ENDED_BY[event] ?? [[], false];
  for (const phase of closed) {
    const span = open.get(phase);
    if (span) Object.assign(span, { to: at, failed: failed && phase !== "queue", open: false });
    open.delete(phase);
  }
}

export function phasesOf(events: readonly TimelineEvent[], now: number): Timeline {
  const found: Timeline = { spans: [], ticks: [] };
  const open = new Map<Phase, Span>();
  let retry = 0;
  for (const { event, timestamp } of events) {
    const at = Date.parse(timestamp);
    if (TICKS.has(event)) found.ticks.push(at);
    closeSpans(open, event, at);
    if (event === "retry_triggered" || (event === "mission_queued" && found.spans.length))
      retry += 1;
    const phase = STARTED_BY[event];
    if (!phase) continue;
    const span: Span = { phase, retry, from: at, to: now, failed: false, open: true };
    open.set(phase, span);
    found.spans.push(span);
  }
  return found;
}

export const retryCount = (spans: readonly Span[]): number =>
  Math.max(0, ...spans.map((span) => span.retry));
