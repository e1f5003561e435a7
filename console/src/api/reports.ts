// Reports of the audit page.
import { queryOptions } from "@tanstack/react-query";
import { api } from "./client";
import { eventsKey } from "./engine";
import { unwrap } from "./problem";

export const failureReportQuery = (hours: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "failures", hours],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/reports/failures", { params: { query: { hours, limit: 200 } }, signal }),
      ),
  });

export const workerReportQuery = (days: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "workers", days],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/reports/workers", { params: { query: { days } }, signal })),
  });

export const proxyReportQuery = (days: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "proxies", days],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/reports/proxies", { params: { query: { days } }, signal })),
  });

export const timelineReportQuery = (mission_id: number) =>
  queryOptions({
    queryKey: [...eventsKey, "report", "timeline", mission_id],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/reports/missions/{mission_id}/timeline", {
          params: { path: { mission_id } },
          signal,
        }),
      ),
  });
