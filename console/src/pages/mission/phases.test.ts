import { describe, expect, it } from "vitest";
import { phasesOf, retryCount } from "./phases";

const at = (second: number) => new Date(second * 1000).toISOString();
const events = (...entries: [number, string][]) =>
  entries.map(([second, event]) => ({ timestamp: at(second), event, details: null }));

describe("a mission's phases", () => {
  it("the session lasts while the worker is assigned", () => {
    const { spans, ticks } = phasesOf(
      events(
        [0, "mission_queued"],
        [2, "mission_assigned"],
        [3, "scrape_started"],
        [5, "scrape_progress"],
        [8, "scrape_completed"],
        [8, "writer_started"],
        [9, "writer_completed"],
        [9, "mission_completed"],
      ),
      99_000,
    );
    expect(spans.map(({ phase, from, to, open }) => [phase, from / 1000, to / 1000, open])).toEqual(
      [
        ["queue", 0, 2, false],
        ["session", 2, 8, false],
        ["scrape", 3, 8, false],
        ["writer", 8, 9, false],
      ],
    );
    expect(ticks).toEqual([5000]);
    expect(retryCount(spans)).toBe(0);
  });

  it("marks the phases of a retry, and open ones end now", () => {
    const { spans } = phasesOf(
      events(
        [0, "mission_queued"],
        [1, "mission_assigned"],
        [1, "scrape_started"],
        [5, "scrape_failed"],
        [5, "retry_triggered"],
        [6, "mission_assigned"],
        [7, "scrape_started"],
      ),
      10_000,
    );
    expect(
      spans.map(({ phase, retry, failed, open, to }) => [phase, retry, failed, open, to / 1000]),
    ).toEqual([
      ["queue", 0, false, false, 1],
      ["session", 0, true, false, 5],
      ["scrape", 0, true, false, 5],
      ["queue", 1, false, false, 6],
      ["session", 1, false, true, 10],
      ["scrape", 1, false, true, 10],
    ]);
  });

  it("queueing a mission again starts another retry", () => {
    const { spans } = phasesOf(
      events(
        [0, "mission_queued"],
        [1, "mission_failed"],
        [9, "mission_queued"],
        [10, "mission_canceled"],
      ),
      20_000,
    );
    expect(spans.map(({ retry, to }) => [retry, to / 1000])).toEqual([
      [0, 1],
      [1, 10],
    ]);
  });
});
