import { expect, it } from "vitest";
import { sessionPoints, throughputPoints } from "./points";

const window = { window_seconds: 180, bucket_seconds: 60 };

it("there is a point for each bucket, empty ones too", () => {
  const throughput = [
    { at: "2026-01-01T10:01:00Z", outcome: "completed", count: 2 },
    { at: "2026-01-01T10:03:00Z", outcome: "failed", count: 1 },
    { at: "2026-01-01T09:00:00Z", outcome: "completed", count: 9 },
  ];
  const columns = throughputPoints({ ...window, now: "2026-01-01T10:03:30Z", throughput });
  expect(columns.map(({ values }) => values)).toEqual([{ completed: 2 }, {}, { failed: 1 }]);
});

it("sessions are counted by outcome", () => {
  const sessions = [{ at: "2026-01-01T10:02:00Z", good: 3, failed: 1 }];
  expect(sessionPoints({ ...window, sessions }, "2026-01-01T10:03:30Z")[1]?.values).toEqual({
    good: 3,
    bad: 1,
  });
});
