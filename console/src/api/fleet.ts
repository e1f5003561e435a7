import { queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { settled } from "./problem";

export type FleetWorker = Schemas["Worker"];
export type FleetProxy = Schemas["Proxy"];
export type FleetWriter = Schemas["Writer"];
export type Verdict = Schemas["Verdict"];
export type Kind = "workers" | "proxies" | "writers";

export const fleetKeys = {
  all: ["fleet"] as const,
  kind: (kind: Kind) => ["fleet", kind] as const,
};

export const workers = queryOptions({
  queryKey: fleetKeys.kind("workers"),
  queryFn: ({ signal }) => settled(api.GET("/api/workers", { signal })),
});

export const proxies = queryOptions({
  queryKey: fleetKeys.kind("proxies"),
  queryFn: ({ signal }) => settled(api.GET("/api/proxies", { signal })),
});

export const writers = queryOptions({
  queryKey: fleetKeys.kind("writers"),
  queryFn: ({ signal }) => settled(api.GET("/api/writers", { signal })),
});

export const addWorker = (body: Schemas["NewWorker"]) =>
  settled(api.POST("/api/workers", { body }));
export const addProxy = (body: Schemas["NewProxy"]) => settled(api.POST("/api/proxies", { body }));
export const addWriter = (body: Schemas["NewWriter"]) =>
  settled(api.POST("/api/writers", { body }));

const at = (id: string) => ({ params: { path: { member_id: id } } });

const SWITCH_ON = {
  workers: "/api/workers/{member_id}/activate",
  proxies: "/api/proxies/{member_id}/activate",
  writers: "/api/writers/{member_id}/activate",
} as const;
const SWITCH_OFF = {
  workers: "/api/workers/{member_id}/deactivate",
  proxies: "/api/proxies/{member_id}/deactivate",
  writers: "/api/writers/{member_id}/deactivate",
} as const;
const TEST = {
  workers: "/api/workers/{member_id}/test",
  proxies: "/api/proxies/{member_id}/test",
  writers: "/api/writers/{member_id}/test",
} as const;

export const switchMember = (kind: Kind, id: string, on: boolean): Promise<unknown> =>
  settled<unknown>(api.POST(on ? SWITCH_ON[kind] : SWITCH_OFF[kind], at(id)));

export const testMember = (kind: Kind, id: string): Promise<Verdict> =>
  settled(api.POST(TEST[kind], at(id)));

export type Changes = Schemas["WorkerChanges"] & Schemas["ProxyChanges"] & Schemas["WriterChanges"];

export const editMember = (kind: Kind, id: string, changes: Changes): Promise<unknown> => {
  const { name, url, api_key, storage_domain, host, port, username, password } = changes;
  if (kind === "workers")
    return settled(
      api.PATCH("/api/workers/{member_id}", {
        ...at(id),
        body: { name, url, api_key, storage_domain },
      }),
    );
  if (kind === "writers")
    return settled(
      api.PATCH("/api/writers/{member_id}", { ...at(id), body: { name, url, api_key } }),
    );
  return settled(
    api.PATCH("/api/proxies/{member_id}", {
      ...at(id),
      body: { name, host, port, username, password },
    }),
  );
};

const ONE = {
  workers: "/api/workers/{member_id}",
  proxies: "/api/proxies/{member_id}",
  writers: "/api/writers/{member_id}",
} as const;

export const removeMember = (kind: Kind, id: string): Promise<unknown> =>
  settled<unknown>(api.DELETE(ONE[kind], at(id)));
