// The four reports of the audit.
import { queryOptions } from "@tanstack/react-query";
import { api } from "./client";
import { eventsKey } from "./engine";
import { settled } from "./problem";

export const failureReport = (hours: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "failures", hours],
    queryFn: ({ signal }) =>
      settled(
        api.GET("/api/reports/failures", { params: { query: { hours, limit: 200 } }, signal }),
      ),
  });

export const workerReport = (days: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "workers", days],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/reports/workers", { params: { query: { days } }, signal })),
  });

export const proxyReport = (days: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "proxies", days],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/reports/proxies", { params: { query: { days } }, signal })),
  });

export const timelineReport = (mission_id: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "timeline", mission_id],
    queryFn: ({ signal }) =>
      settled(
        api.GET("/api/reports/missions/{mission_id}/timeline", {
          params: { path: { mission_id } },
          signal,
        }),
      ),
  });
