import { queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type FleetWorker = Schemas["WorkerInfo"];
export type FleetProxy = Schemas["ProxyInfo"];
export type FleetWriter = Schemas["WriterInfo"];
export type TestResult = Schemas["TestResult"];
export type FleetKind = "workers" | "proxies" | "writers";

export const fleetKeys = {
  all: ["fleet"] as const,
  kind: (kind: FleetKind) => ["fleet", kind] as const,
};

export const workersQuery = queryOptions({
  queryKey: fleetKeys.kind("workers"),
  queryFn: ({ signal }) => unwrap(api.GET("/api/workers", { signal })),
});

export const proxiesQuery = queryOptions({
  queryKey: fleetKeys.kind("proxies"),
  queryFn: ({ signal }) => unwrap(api.GET("/api/proxies", { signal })),
});

export const writersQuery = queryOptions({
  queryKey: fleetKeys.kind("writers"),
  queryFn: ({ signal }) => unwrap(api.GET("/api/writers", { signal })),
});

export const addWorker = (body: Schemas["NewWorker"]) => unwrap(api.POST("/api/workers", { body }));
export const addProxy = (body: Schemas["NewProxy"]) => unwrap(api.POST("/api/proxies", { body }));
export const addWriter = (body: Schemas["NewWriter"]) => unwrap(api.POST("/api/writers", { body }));

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

export const setMemberActive = (kind: FleetKind, id: string, on: boolean): Promise<unknown> =>
  unwrap<unknown>(api.POST(on ? SWITCH_ON[kind] : SWITCH_OFF[kind], at(id)));

export const testMember = (kind: FleetKind, id: string): Promise<TestResult> =>
  unwrap(api.POST(TEST[kind], at(id)));

export type MemberChanges = Schemas["WorkerChanges"] &
  Schemas["ProxyChanges"] &
  Schemas["WriterChanges"];

export const updateMember = (
  kind: FleetKind,
  id: string,
  changes: MemberChanges,
): Promise<unknown> => {
  const { name, url, api_key, storage_domain, host, port, username, password } = changes;
  if (kind === "workers")
    return unwrap(
      api.PATCH("/api/workers/{member_id}", {
        ...at(id),
        body: { name, url, api_key, storage_domain },
      }),
    );
  if (kind === "writers")
    return unwrap(
      api.PATCH("/api/writers/{member_id}", { ...at(id), body: { name, url, api_key } }),
    );
  return unwrap(
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

export const removeMember = (kind: FleetKind, id: string): Promise<unknown> =>
  unwrap<unknown>(api.DELETE(ONE[kind], at(id)));
