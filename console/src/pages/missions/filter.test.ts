import { describe, expect, it } from "vitest";
import type { Mission } from "../../api/missions";
import { filterOf, isEmpty, withParam } from "./filter";
import { isSelected, selectAll, selectionRequest, toggleSelection } from "./selection";

const of = (text: string) => filterOf(new URLSearchParams(text));

describe("the filter in the search parameters", () => {
  it("is read from it", () => {
    expect(
      of("status=draft&status=failed&media=video&language=pt&from=2025-01-01&code=ERROR203"),
    ).toEqual({
      statuses: ["draft", "failed"],
      media_type: "video",
      language: "pt",
      date_from: "2025-01-01",
      error_code: "ERROR203",
    });
  });

  it("ignores invalid values", () => {
    expect(of("status=nonsense&media=smell&from=yesterday&language=%20")).toEqual({});
    expect(isEmpty(of("new=1"))).toBe(true);
  });

  it("changes one parameter and keeps the others", () => {
    const next = withParam(new URLSearchParams("status=draft&media=video"), "status", [
      "queued",
      "running",
    ]);
    expect(next.toString()).toBe("media=video&status=queued&status=running");
    expect(withParam(next, "media", [""]).has("media")).toBe(false);
  });
});

describe("a selection", () => {
  const loaded = [{ id: 1 }, { id: 2 }] as Mission[];

  it("of all matching missions sends the filter", () => {
    expect(selectionRequest({ all: true }, { statuses: ["draft"] })).toEqual({
      filter: { statuses: ["draft"] },
    });
    expect(selectionRequest(selectAll(loaded), {})).toEqual({ ids: [1, 2] });
  });

  it("of all becomes one of the others when one is deselected", () => {
    const left = toggleSelection({ all: true }, 1, loaded);
    expect([isSelected(left, 1), isSelected(left, 2)]).toEqual([false, true]);
  });
});
