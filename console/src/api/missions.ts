import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { settled } from "./problem";

export type Mission = Schemas["Mission"];
export type MissionStatus = Mission["status"];
export type MissionFilter = Schemas["MissionFilter"];
export type MissionSelection = Schemas["MissionSelection"];
export type MissionRange = Schemas["MissionRange"];
export type Action = Schemas["Action"];
export type DryRun = Schemas["DryRun"];
export type Deed = "queue" | "cancel" | "retry";

export const PAGE_SIZE = 200;

export const missionKeys = {
  all: ["missions"] as const,
  lists: ["missions", "list"] as const,
  one: (id: number) => ["missions", "one", id] as const,
  counts: ["missions", "counts"] as const,
};

export const missionList = (filter: MissionFilter) =>
  infiniteQueryOptions({
    queryKey: [...missionKeys.lists, filter] as const,
    queryFn: ({ pageParam, signal }) =>
      settled(
        api.GET("/api/missions", {
          params: {
            query: { ...filter, limit: PAGE_SIZE, cursor: pageParam, count: pageParam === null },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    // Comparing every row of every page with itself, at each page that comes, is what would hold up the scrolling.
    structuralSharing: false,
  });

export const missionCounts = queryOptions({
  queryKey: missionKeys.counts,
  queryFn: ({ signal }) => settled(api.GET("/api/missions/counts", { signal })),
});

const at = (id: number) => ({ params: { path: { mission_id: id } } });

export const missionOne = (id: number) =>
  queryOptions({
    queryKey: missionKeys.one(id),
    queryFn: ({ signal }) => settled(api.GET("/api/missions/{mission_id}", { ...at(id), signal })),
  });

export const missionTimeline = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "timeline"],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/missions/{mission_id}/timeline", { ...at(id), signal })),
  });

export const missionWhy = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "why"],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/missions/{mission_id}/why", { ...at(id), signal })),
  });

export const failedItems = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "failed-items"],
    queryFn: ({ signal }) =>
      settled(
        api.GET("/api/missions/{mission_id}/failed-items", {
          params: { path: { mission_id: id }, query: { limit: 100 } },
          signal,
        }),
      ),
  });

export const createMissions = (range: MissionRange, queue: boolean) =>
  settled(api.POST("/api/missions", { body: { range, queue, dry_run: false } }));

const DEEDS = {
  queue: "/api/missions/queue",
  cancel: "/api/missions/cancel",
  retry: "/api/missions/retry",
} as const;

export const actOnMissions = (deed: Deed, selection: MissionSelection): Promise<Action | DryRun> =>
  settled(api.POST(DEEDS[deed], { body: selection }));

export const actOnMission = (deed: Deed, id: number): Promise<unknown> => {
  if (deed === "queue") return settled(api.POST("/api/missions/{mission_id}/queue", at(id)));
  if (deed === "cancel") return settled(api.POST("/api/missions/{mission_id}/cancel", at(id)));
  return settled(api.POST("/api/missions/{mission_id}/retry", at(id)));
};

export const actionProgress = (id: number) =>
  queryOptions({
    queryKey: ["actions", id],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/actions/{action_id}", { params: { path: { action_id: id } }, signal })),
    refetchInterval: (query) => (query.state.data?.status === "running" ? 700 : false),
  });
