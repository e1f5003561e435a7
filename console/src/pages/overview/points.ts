// Counts per time bucket as chart points: one for each bucket of the range, empty ones too.
import type { Stats, Trends } from "../../api/overview";
import type { Point } from "../../components/chart/plots";

type Windowed = { window_seconds: number; bucket_seconds: number };
type Count = { at: string; id: string; count: number };

function pointsOf(
  { window_seconds, bucket_seconds }: Windowed,
  now: string,
  counts: readonly Count[],
): Point[] {
  const step = bucket_seconds * 1000;
  const length = Math.floor(window_seconds / bucket_seconds);
  const first = Math.floor(Date.parse(now) / step) - length + 1;
  const points = Array.from(
    { length },
    (_, index): Point => ({ at: (first + index) * step, values: {} }),
  );
  for (const { at, id, count } of counts) {
    const point = points[Math.floor(Date.parse(at) / step) - first];
    if (point) point.values[id] = (point.values[id] ?? 0) + count;
  }
  return points;
}

export const throughputPoints = (stats: Pick<Stats, "throughput" | "now"> & Windowed): Point[] =>
  pointsOf(
    stats,
    stats.now,
    stats.throughput.map(({ at, outcome, count }) => ({ at, id: outcome, count })),
  );

export const sessionPoints = (trends: Pick<Trends, "sessions"> & Windowed, now: string): Point[] =>
  pointsOf(
    trends,
    now,
    trends.sessions.flatMap(({ at, good, failed }) => [
      { at, id: "good", count: good },
      { at, id: "bad", count: failed },
    ]),
  );
