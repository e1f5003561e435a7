import type { Stats } from "../../api/operations";

export interface Column {
  at: number;
  outcomes: Record<string, number>;
  total: number;
}

// One column for each bucket of the window, also for those in which nothing ended.
export function columnsOf({ throughput, now, window_seconds, bucket_seconds }: Pick<Stats, "throughput" | "now" | "window_seconds" | "bucket_seconds">): Column[] {
  const step = bucket_seconds * 1000;
  const last = Math.floor(Date.parse(now) / step);
  const count = Math.floor(window_seconds / bucket_seconds);
  const columns = Array.from({ length: count }, (_, index): Column => ({ at: (last - count + 1 + index) * step, outcomes: {}, total: 0 }));
  for (const { at, outcome, count: ended } of throughput) {
    const column = columns[Math.floor(Date.parse(at) / step) - (last - count + 1)];
    if (!column) continue;
    column.outcomes[outcome] = (column.outcomes[outcome] ?? 0) + ended;
    column.total += ended;
  }
  return columns;
}
