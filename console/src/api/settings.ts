// Settings and API keys.
import { queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type Settings = Schemas["Settings"];
export type Key = Schemas["Key"];

export const settingsKey = ["settings"] as const;

export const settingsQuery = queryOptions({
  queryKey: settingsKey,
  queryFn: ({ signal }) => unwrap(api.GET("/api/settings", { signal })),
  refetchInterval: 15_000,
});

export const changeSettings = (body: Schemas["SettingChanges"]) =>
  unwrap(api.PATCH("/api/settings", { body }));

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/keys", { signal })),
});

export const createKey = (body: Schemas["NewKey"]) => unwrap(api.POST("/api/keys", { body }));
export const revokeKey = (id: string): Promise<unknown> =>
  unwrap<unknown>(api.DELETE("/api/keys/{member_id}", { params: { path: { member_id: id } } }));
export type Person = Schemas["Person"];

export const peopleQuery = queryOptions({
  queryKey: ["people"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/people", { signal })),
});

export const endSessionsOf = (id: string): Promise<unknown> =>
  unwrap<unknown>(
    api.DELETE("/api/people/{member_id}/sessions", { params: { path: { member_id: id } } }),
  );
export const createSignInLink = (id: string) =>
  unwrap(api.POST("/api/keys/{member_id}/sign-in-link", { params: { path: { member_id: id } } }));
