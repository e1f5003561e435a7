import { describe, expect, it } from "vitest";
import { spansOf } from "./lanes";

const at = (second: number) => new Date(second * 1000).toISOString();
const events = (...told: [number, string][]) => told.map(([second, event]) => ({ timestamp: at(second), event, details: null }));

describe("a mission's lanes", () => {
  it("are its phases, one after the other", () => {
    const spans = spansOf(
      events([0, "mission_queued"], [2, "mission_assigned"], [2, "scrape_started"], [8, "scrape_completed"], [8, "writer_started"], [9, "mission_completed"]),
      99_000,
    );
    expect(spans.map(({ lane, from, to }) => [lane, from / 1000, to / 1000])).toEqual([
      ["queue", 0, 2],
      ["scrape", 2, 8],
      ["writer", 8, 9],
    ]);
  });

  it("show each try, and the one that is still open until now", () => {
    const spans = spansOf(events([0, "scrape_started"], [5, "scrape_failed"], [6, "scrape_started"]), 10_000);
    expect(spans.map(({ failed, open, to }) => [failed, open, to / 1000])).toEqual([
      [true, false, 5],
      [false, true, 10],
    ]);
  });
});
