import { expect, it } from "vitest";
import { BUILTIN_PAGES, pagesInEvents, resultsPath } from "./builtinPages";

it("finds the pages in the folders of the pipelines", () => {
  expect(BUILTIN_PAGES.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["quotes", "rounds", "documents", "embeddings"]),
  );
});

it("a batch of a built-in pipeline has a results page", () => {
  expect(resultsPath({ id: 7, pipeline: "quotes" })).toBe("/results/lots/7");
  expect(resultsPath({ id: 7, pipeline: "documents" })).toBe("/results/executions/7");
  expect(resultsPath({ id: 7, pipeline: "matches" })).toBe("/results?of=rounds&batch=7");
  expect(resultsPath({ id: 7, pipeline: "embeddings" })).toBe("/results?of=embeddings");
  expect([
    resultsPath({ id: 7, pipeline: "missions" }),
    resultsPath({ id: 7, pipeline: null }),
  ]).toEqual([null, null]);
});

it("an event concerns the results of its own pipeline only", () => {
  expect([...pagesInEvents([{ pipeline: "matches", batch_id: 3 }])]).toEqual(["rounds"]);
  expect([
    ...pagesInEvents([
      { pipeline: "missions", batch_id: 3 },
      { pipeline: null, batch_id: null },
    ]),
  ]).toEqual([]);
});

it("an event of a whole batch concerns the results of all pipelines", () => {
  expect(pagesInEvents([{ pipeline: null, batch_id: 3 }]).size).toBe(BUILTIN_PAGES.length);
});
