import { describe, expect, it } from "vitest";
import {
  daysBetween,
  formOf,
  missionCount,
  missionRange,
  type RangeForm,
  validateForm,
} from "./range";

const draft: RangeForm = {
  from: "2025-01-01",
  to: "2025-01-03",
  media: ["video", "image"],
  languages: "pt, es",
  onePerLanguage: true,
  daysEach: 1,
};

describe("a range of missions", () => {
  it("creates days × media × languages", () => {
    expect(missionCount(draft)).toBe(12);
    expect(validateForm(draft)).toBeNull();
  });

  it("combines the languages unless there is one mission per language", () => {
    expect(missionCount({ ...draft, onePerLanguage: false })).toBe(6);
    expect(missionRange({ ...draft, onePerLanguage: false }).languages).toEqual([["pt", "es"]]);
    expect(missionRange(draft).languages).toEqual([["pt"], ["es"]]);
  });

  it("rounds up when a mission has several days", () => {
    expect(missionCount({ ...draft, daysEach: 2 })).toBe(8);
  });

  it("counts calendar days, across the end of February too", () => {
    expect(daysBetween("2024-02-28", "2024-03-01")).toBe(3);
    expect(daysBetween("", "2024-03-01")).toBe(0);
  });

  it("the form of a mission creates the same mission again", () => {
    const clone = formOf({
      date_start: "2025-01-01",
      date_end: "2025-01-03",
      media_type: "video",
      languages: ["pt", "en"],
    });
    expect(missionCount(clone)).toBe(1);
    expect(missionRange(clone)).toEqual({
      date_start: "2025-01-01",
      date_end: "2025-01-03",
      media_types: ["video"],
      languages: [["pt", "en"]],
      days_each: 3,
    });
  });

  it.each([
    ["days", { to: "2024-12-31" }],
    ["days", { from: "" }],
    ["media", { media: [] }],
    ["languages", { languages: " , " }],
    ["languages", { languages: "Portuguese!" }],
    ["daysEach", { daysEach: 0 }],
    ["tooMany", { from: "1990-01-01", languages: "pt es en fr" }],
  ] as const)("is invalid: %s", (invalid, changes) => {
    expect(
      validateForm({ ...draft, ...changes, media: "media" in changes ? [] : draft.media }),
    ).toBe(invalid);
  });
});
