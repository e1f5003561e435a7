// Evidence of a quote: which prices are kept, statistics, and checkpoints without repetitions.
import type { QuoteDetail, QuoteSource } from "./queries";

export type Verdict = "kept" | "outlier" | "none";

export const verdictOf = ({ price, outlier }: Pick<QuoteSource, "price" | "outlier">): Verdict =>
  price === null ? "none" : outlier ? "outlier" : "kept";

export function statistic(statistics: QuoteDetail["statistics"], name: string): number | null {
  const value = statistics?.[name];
  if (typeof value !== "number" && typeof value !== "string") return null;
  return value === "" || !Number.isFinite(Number(value)) ? null : Number(value);
}

// The price as a multiple of the median.
export function timesMedian(
  price: string | null,
  statistics: QuoteDetail["statistics"],
): number | null {
  const median = statistic(statistics, "median");
  return price === null || !median ? null : Number(price) / median;
}

export interface CheckpointSummary {
  checkpoint: string;
  times: number;
  attempt: number;
  at: string;
  duration_ms: number | null;
}

// One entry per checkpoint: how many times it was passed, the last time, and the total duration.
export function summarizeCheckpoints(checkpoints: QuoteDetail["checkpoints"]): CheckpointSummary[] {
  const found = new Map<string, CheckpointSummary>();
  for (const { checkpoint, attempt, at, duration_ms } of checkpoints) {
    const known = found.get(checkpoint);
    const took = known?.duration_ms == null ? duration_ms : known.duration_ms + (duration_ms ?? 0);
    found.delete(checkpoint);
    found.set(checkpoint, {
      checkpoint,
      times: (known?.times ?? 0) + 1,
      attempt: Math.max(attempt, known?.attempt ?? 0),
      at,
      duration_ms: took,
    });
  }
  return [...found.values()];
}
