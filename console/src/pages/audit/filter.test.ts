import { expect, it } from "vitest";
import { exportQuery, filterOf } from "./filter";

it("the address holds the whole filter, and what cannot be understood is left out", () => {
  const filter = filterOf(
    new URLSearchParams("mission=7&task=x&types=a,b&since=2026-01-02T03:04&until=never"),
  );
  expect(filter).toEqual({
    mission_id: 7,
    types: ["a", "b"],
    since: new Date("2026-01-02T03:04").toISOString(),
  });
});

it("an export asks for what the filter shows", () => {
  expect(
    exportQuery({ mission_id: 7, types: ["a", "b"], since: "2026-01-02T03:04:00.000Z" }, "csv"),
  ).toBe("format=csv&mission_id=7&since=2026-01-02T03%3A04%3A00.000Z&types=a&types=b");
});
