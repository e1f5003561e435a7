import { describe, expect, it } from "vitest";
import { countOf, type Draft, daysBetween, draftOf, flawOf, rangeOf } from "./range";

const draft: Draft = {
  from: "2025-01-01",
  to: "2025-01-03",
  media: ["video", "image"],
  languages: "pt, es",
  apart: true,
  daysEach: 1,
};

describe("a range of missions", () => {
  it("makes days × media × languages", () => {
    expect(countOf(draft)).toBe(12);
    expect(flawOf(draft)).toBeNull();
  });

  it("puts the languages together when they are not apart", () => {
    expect(countOf({ ...draft, apart: false })).toBe(6);
    expect(rangeOf({ ...draft, apart: false }).languages).toEqual([["pt", "es"]]);
    expect(rangeOf(draft).languages).toEqual([["pt"], ["es"]]);
  });

  it("rounds up when a mission has several days", () => {
    expect(countOf({ ...draft, daysEach: 2 })).toBe(8);
  });

  it("counts days of the calendar, also over the end of February", () => {
    expect(daysBetween("2024-02-28", "2024-03-01")).toBe(3);
    expect(daysBetween("", "2024-03-01")).toBe(0);
  });

  it("of a mission makes the same one again", () => {
    const clone = draftOf({
      date_start: "2025-01-01",
      date_end: "2025-01-03",
      media_type: "video",
      languages: ["pt", "en"],
    });
    expect(countOf(clone)).toBe(1);
    expect(rangeOf(clone)).toEqual({
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
  ] as const)("has the flaw %s", (flaw, changes) => {
    expect(flawOf({ ...draft, ...changes, media: "media" in changes ? [] : draft.media })).toBe(
      flaw,
    );
  });
});
