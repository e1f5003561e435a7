import { describe, expect, it } from "vitest";
import { linePath, niceMaximum } from "./scale";

describe("the scale of a chart", () => {
  it.each([
    [0, 1],
    [1, 1],
    [3, 5],
    [10, 10],
    [11, 20],
    [47, 50],
    [501, 1000],
  ])("rounds %i up to %i", (most, nice) => {
    expect(niceMaximum(most)).toBe(nice);
  });

  it("draws a line through the columns and closes it for a filled area", () => {
    expect(linePath([0, 10], 10, 100, false)).toBe("M5 100.00L15 0.00");
    expect(linePath([0, 10], 10, 100, true)).toBe("M5 100.00L15 0.00L15 100L5 100Z");
    expect(linePath([], 10, 100, true)).toBe("");
  });
});
