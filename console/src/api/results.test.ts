import { expect, it } from "vitest";
import { kindsHeard, resultsOf } from "./results";

it("a batch leads to its results when its pipeline is one of ours", () => {
  expect(resultsOf({ id: 7, pipeline: "quotes" })).toBe("/results/lots/7");
  expect(resultsOf({ id: 7, pipeline: "documents" })).toBe("/results/executions/7");
  expect(resultsOf({ id: 7, pipeline: "matches" })).toBe("/results?of=rounds&batch=7");
  expect(resultsOf({ id: 7, pipeline: "embeddings" })).toBe("/results?of=embeddings");
  expect([
    resultsOf({ id: 7, pipeline: "missions" }),
    resultsOf({ id: 7, pipeline: null }),
  ]).toEqual([null, null]);
});

it("an event makes only the results of its own pipeline stale", () => {
  expect([...kindsHeard([{ pipeline: "matches", batch_id: 3 }])]).toEqual(["rounds"]);
  expect([
    ...kindsHeard([
      { pipeline: "missions", batch_id: 3 },
      { pipeline: null, batch_id: null },
    ]),
  ]).toEqual([]);
});

it("what happens to a batch as a whole may be about any of them", () => {
  expect(kindsHeard([{ pipeline: null, batch_id: 3 }]).size).toBe(4);
});
