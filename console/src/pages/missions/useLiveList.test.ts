import { expect, it } from "vitest";
import type { Mission } from "../../api/missions";
import { hasNewer, type MissionPages, withMission } from "./useLiveList";

const mission = (id: number, status: Mission["status"] = "queued") => ({ id, status }) as Mission;
const pages: MissionPages = {
  pages: [
    { items: [mission(9), mission(8)], next: "8", total: 3, total_is_capped: false },
    { items: [mission(7)], next: null, total: null, total_is_capped: false },
  ],
  pageParams: [null, "8"],
};

it("replaces a mission in place", () => {
  const fresh = withMission(pages, mission(8, "running"));
  expect(fresh.pages.flatMap(({ items }) => items.map(({ id, status }) => [id, status]))).toEqual([
    [9, "queued"],
    [8, "running"],
    [7, "queued"],
  ]);
});

it("detects newer missions", () => {
  expect([
    hasNewer(pages, new Set([8])),
    hasNewer(pages, new Set([3, 10])),
    hasNewer(undefined, new Set([1])),
  ]).toEqual([false, true, true]);
});
