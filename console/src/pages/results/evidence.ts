// What a quote's evidence says: which prices count and why not the others, and the checkpoints without their repetitions.
import type { QuoteDetail, QuoteSource } from "../../api/results";

export type Verdict = "kept" | "outlier" | "none";

export const verdictOf = ({ price, outlier }: Pick<QuoteSource, "price" | "outlier">): Verdict =>
  price === null ? "none" : outlier ? "outlier" : "kept";

export function figure(statistics: QuoteDetail["statistics"], name: string): number | null {
  const value = statistics?.[name];
  if (typeof value !== "number" && typeof value !== "string") return null;
  return value === "" || !Number.isFinite(Number(value)) ? null : Number(value);
}

// How many times the median a price is.
export function timesMedian(
  price: string | null,
  statistics: QuoteDetail["statistics"],
): number | null {
  const median = figure(statistics, "median");
  return price === null || !median ? null : Number(price) / median;
}

export interface Passed {
  checkpoint: string;
  times: number;
  attempt: number;
  at: string;
  duration_ms: number | null;
}

// A checkpoint that comes once for each product is told once: how often, the last time, and all the time it took.
export function passed(checkpoints: QuoteDetail["checkpoints"]): Passed[] {
  const found = new Map<string, Passed>();
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
