// Statistics of the overview, the orchestrator and the demo.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type Stats = Schemas["Stats"];
export type Trends = Schemas["Trends"];

export const statsKey = ["stats"] as const;

export const orchestratorQuery = queryOptions({
  queryKey: ["orchestrator"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/orchestrator", { signal })),
  refetchInterval: 15_000,
});

export const startOrchestrator = () => unwrap(api.POST("/api/orchestrator/start"));
export const stopOrchestrator = () => unwrap(api.POST("/api/orchestrator/stop"));

export const WINDOWS = [900, 3600, 21_600, 86_400] as const;
export type StatsWindow = (typeof WINDOWS)[number];

export const statsQuery = (window_seconds: StatsWindow) =>
  queryOptions({
    queryKey: [...statsKey, window_seconds],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/stats", { params: { query: { window_seconds } }, signal })),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });

export const trendsQuery = (window_seconds: StatsWindow) =>
  queryOptions({
    queryKey: [...statsKey, "trends", window_seconds],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/trends", { params: { query: { window_seconds } }, signal })),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });

export const demoQuery = queryOptions({
  queryKey: ["demo"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/demo", { signal })),
});

export const startDemo = () => unwrap(api.POST("/api/demo/start"));
