import { expect, it } from "vitest";
import { exportQuery, filterOf } from "./filter";

it("reads the filter from the search parameters and ignores invalid values", () => {
  const filter = filterOf(
    new URLSearchParams("mission=7&task=x&types=a,b&since=2026-01-02T03:04&until=never"),
  );
  expect(filter).toEqual({
    mission_id: 7,
    types: ["a", "b"],
    since: new Date("2026-01-02T03:04").toISOString(),
  });
});

it("an export has the same filter", () => {
  expect(
    exportQuery({ mission_id: 7, types: ["a", "b"], since: "2026-01-02T03:04:00.000Z" }, "csv"),
  ).toBe("format=csv&mission_id=7&since=2026-01-02T03%3A04%3A00.000Z&types=a&types=b");
});
