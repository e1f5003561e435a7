import { expect, it } from "vitest";
import { statistic, summarizeCheckpoints, timesMedian, verdictOf } from "./evidence";

it("a source is kept, an outlier, or has no price", () => {
  expect(verdictOf({ price: "10.00", outlier: false })).toBe("kept");
  expect(verdictOf({ price: "100.00", outlier: true })).toBe("outlier");
  expect(verdictOf({ price: null, outlier: false })).toBe("none");
});

it("an outlier is a multiple of the median", () => {
  expect(timesMedian("1005.00", { median: "100.50" })).toBe(10);
  expect([
    timesMedian(null, { median: "100" }),
    timesMedian("5", null),
    timesMedian("5", { median: "0" }),
  ]).toEqual([null, null, null]);
});

it("a statistic is a number or null", () => {
  const statistics = { mean: "12.50", kept: 4, note: "many", nothing: "", deep: { a: 1 } };
  expect(
    ["mean", "kept", "note", "nothing", "deep", "missing"].map((name) =>
      statistic(statistics, name),
    ),
  ).toEqual([12.5, 4, null, null, null, null]);
});

it("summarizes repeated checkpoints in the order of their last time", () => {
  const at = (second: number) => `2026-11-15T10:00:0${second}Z`;
  const progress = (item: number, second: number, attempt: number) => ({
    checkpoint: "PRICE_EXTRACTION_PROGRESS",
    item,
    attempt,
    at: at(second),
    duration_ms: 100,
  });
  const found = summarizeCheckpoints([
    { checkpoint: "AI_ANALYSIS_DONE", item: null, attempt: 1, at: at(1), duration_ms: null },
    progress(0, 2, 1),
    progress(1, 3, 2),
    { checkpoint: "COMPLETED", item: null, attempt: 2, at: at(4), duration_ms: 5 },
  ]);
  expect(found.map(({ checkpoint, times }) => [checkpoint, times])).toEqual([
    ["AI_ANALYSIS_DONE", 1],
    ["PRICE_EXTRACTION_PROGRESS", 2],
    ["COMPLETED", 1],
  ]);
  expect(found[1]).toMatchObject({ attempt: 2, at: at(3), duration_ms: 200 });
});
