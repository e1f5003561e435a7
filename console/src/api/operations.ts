// The overview, the orchestrator, the settings and the keys.
import { queryOptions } from "@tanstack/react-query";
import { type Schemas, api } from "./client";
import { settled } from "./problem";

export type Stats = Schemas["Stats"];
export type Settings = Schemas["Settings"];
export type Key = Schemas["Key"];

export const statsKey = ["stats"] as const;

export const stats = queryOptions({
  queryKey: statsKey,
  queryFn: ({ signal }) => settled(api.GET("/api/stats", { signal })),
  refetchInterval: 15_000,
});

export const orchestrator = queryOptions({
  queryKey: ["orchestrator"],
  queryFn: ({ signal }) => settled(api.GET("/api/orchestrator", { signal })),
  refetchInterval: 15_000,
});

export const startOrchestrator = () => settled(api.POST("/api/orchestrator/start"));
export const stopOrchestrator = () => settled(api.POST("/api/orchestrator/stop"));

export const settings = queryOptions({
  queryKey: ["settings"],
  queryFn: ({ signal }) => settled(api.GET("/api/settings", { signal })),
});

export const changeSettings = (body: Schemas["SettingChanges"]) => settled(api.PATCH("/api/settings", { body }));

export const keys = queryOptions({
  queryKey: ["keys"],
  queryFn: ({ signal }) => settled(api.GET("/api/keys", { signal })),
});

export const createKey = (body: Schemas["NewKey"]) => settled(api.POST("/api/keys", { body }));
export const revokeKey = (id: string): Promise<unknown> =>
  settled<unknown>(api.DELETE("/api/keys/{member_id}", { params: { path: { member_id: id } } }));
export const signInLink = (id: string) =>
  settled(api.POST("/api/keys/{member_id}/sign-in-link", { params: { path: { member_id: id } } }));
