import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type Mission = Schemas["Mission"];
export type MissionStatus = Mission["status"];
export type MissionFilter = Schemas["MissionFilter"];
export type MissionSelection = Schemas["MissionSelection"];
export type MissionRange = Schemas["MissionRange"];
export type BulkAction = Schemas["Action"];
export type DryRun = Schemas["DryRun"];
export type MissionAction = "queue" | "cancel" | "retry";

export const PAGE_SIZE = 200;

export const missionKeys = {
  all: ["missions"] as const,
  lists: ["missions", "list"] as const,
  one: (id: number) => ["missions", "one", id] as const,
  counts: ["missions", "counts"] as const,
};

export const missionListQuery = (filter: MissionFilter) =>
  infiniteQueryOptions({
    queryKey: [...missionKeys.lists, filter] as const,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/missions", {
          params: {
            query: { ...filter, limit: PAGE_SIZE, cursor: pageParam, count: pageParam === null },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    // Structural sharing compares all rows of all pages whenever a page arrives, which blocks
    // scrolling.
    structuralSharing: false,
  });

export const missionCountsQuery = queryOptions({
  queryKey: missionKeys.counts,
  queryFn: ({ signal }) => unwrap(api.GET("/api/missions/counts", { signal })),
});

const at = (id: number) => ({ params: { path: { mission_id: id } } });

export const missionQuery = (id: number) =>
  queryOptions({
    queryKey: missionKeys.one(id),
    queryFn: ({ signal }) => unwrap(api.GET("/api/missions/{mission_id}", { ...at(id), signal })),
  });

export const missionTimelineQuery = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "timeline"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/missions/{mission_id}/timeline", { ...at(id), signal })),
  });

export const missionWhyQuery = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "why"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/missions/{mission_id}/why", { ...at(id), signal })),
  });

export const failedItemsQuery = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "failed-items"],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/missions/{mission_id}/failed-items", {
          params: { path: { mission_id: id }, query: { limit: 100 } },
          signal,
        }),
      ),
  });

export const createMissions = (range: MissionRange, queue: boolean) =>
  unwrap(api.POST("/api/missions", { body: { range, queue, dry_run: false } }));

const ACTION_PATHS = {
  queue: "/api/missions/queue",
  cancel: "/api/missions/cancel",
  retry: "/api/missions/retry",
} as const;

export const actOnMissions = (
  action: MissionAction,
  selection: MissionSelection,
): Promise<BulkAction | DryRun> => unwrap(api.POST(ACTION_PATHS[action], { body: selection }));

export const actOnMission = (action: MissionAction, id: number): Promise<unknown> => {
  if (action === "queue") return unwrap(api.POST("/api/missions/{mission_id}/queue", at(id)));
  if (action === "cancel") return unwrap(api.POST("/api/missions/{mission_id}/cancel", at(id)));
  return unwrap(api.POST("/api/missions/{mission_id}/retry", at(id)));
};

export const bulkActionQuery = (id: number) =>
  queryOptions({
    queryKey: ["actions", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/actions/{action_id}", { params: { path: { action_id: id } }, signal })),
    refetchInterval: (query) => (query.state.data?.status === "running" ? 700 : false),
  });
