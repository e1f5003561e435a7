// The overview, the orchestrator, the settings and the keys.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { settled } from "./problem";

export type Stats = Schemas["Stats"];
export type Settings = Schemas["Settings"];
export type Key = Schemas["Key"];

export const statsKey = ["stats"] as const;

export const orchestrator = queryOptions({
  queryKey: ["orchestrator"],
  queryFn: ({ signal }) => settled(api.GET("/api/orchestrator", { signal })),
  refetchInterval: 15_000,
});

export const startOrchestrator = () => settled(api.POST("/api/orchestrator/start"));
export const stopOrchestrator = () => settled(api.POST("/api/orchestrator/stop"));

export const settingsKey = ["settings"] as const;

export const settings = queryOptions({
  queryKey: settingsKey,
  queryFn: ({ signal }) => settled(api.GET("/api/settings", { signal })),
  refetchInterval: 15_000,
});

export const changeSettings = (body: Schemas["SettingChanges"]) =>
  settled(api.PATCH("/api/settings", { body }));

export const keys = queryOptions({
  queryKey: ["keys"],
  queryFn: ({ signal }) => settled(api.GET("/api/keys", { signal })),
});

export const createKey = (body: Schemas["NewKey"]) => settled(api.POST("/api/keys", { body }));
export const revokeKey = (id: string): Promise<unknown> =>
  settled<unknown>(api.DELETE("/api/keys/{member_id}", { params: { path: { member_id: id } } }));
export const signInLink = (id: string) =>
  settled(api.POST("/api/keys/{member_id}/sign-in-link", { params: { path: { member_id: id } } }));

export type Trends = Schemas["Trends"];

export const WINDOWS = [900, 3600, 21_600, 86_400] as const;
export type Window = (typeof WINDOWS)[number];

export const statsOver = (window_seconds: Window) =>
  queryOptions({
    queryKey: [...statsKey, window_seconds],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/stats", { params: { query: { window_seconds } }, signal })),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });

export const trendsOver = (window_seconds: Window) =>
  queryOptions({
    queryKey: [...statsKey, "trends", window_seconds],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/trends", { params: { query: { window_seconds } }, signal })),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });

export const demo = queryOptions({
  queryKey: ["demo"],
  queryFn: ({ signal }) => settled(api.GET("/api/demo", { signal })),
});

export const startDemo = () => settled(api.POST("/api/demo/start"));
