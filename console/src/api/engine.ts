// Batches, failures, runners and the audit log.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { settled } from "./problem";

export type Batch = Schemas["Batch"];
export type BatchDetail = Schemas["BatchDetail"];
export type FailureGroup = Schemas["FailureGroup"];
export type Failure = Schemas["Failure"];
export type Runner = Schemas["Runner"];
export type Event = Schemas["Event"];
export type EventFilter = {
  mission_id?: number;
  task_id?: number;
  batch_id?: number;
  types?: string[];
  worker_id?: string;
  since?: string;
  until?: string;
};

export const batchesKey = ["batches"] as const;
export const failuresKey = ["failures"] as const;
export const runnersKey = ["runners"] as const;
export const eventsKey = ["events"] as const;

export const batchList = (status?: Batch["status"]) =>
  infiniteQueryOptions({
    queryKey: [...batchesKey, "list", status ?? "all"],
    queryFn: ({ pageParam, signal }) =>
      settled(
        api.GET("/api/batches", {
          params: {
            query: { limit: 50, cursor: pageParam, ...(status ? { statuses: [status] } : {}) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });

const batch = (id: number) => ({ params: { path: { batch_id: id } } });

export const batchOne = (id: number) =>
  queryOptions({
    queryKey: [...batchesKey, "one", id],
    queryFn: ({ signal }) => settled(api.GET("/api/batches/{batch_id}", { ...batch(id), signal })),
  });

export const resumeBatch = (id: number) =>
  settled(api.POST("/api/batches/{batch_id}/resume", batch(id)));
export const reprocessBatch = (id: number) =>
  settled(api.POST("/api/batches/{batch_id}/reprocess", batch(id)));
export const cancelBatch = (id: number) =>
  settled(api.POST("/api/batches/{batch_id}/cancel", batch(id)));

export const failureGroups = queryOptions({
  queryKey: [...failuresKey, "groups"],
  queryFn: ({ signal }) => settled(api.GET("/api/failures/groups", { signal })),
});

export const failureMembers = (filter: Schemas["FailureFilter"]) =>
  infiniteQueryOptions({
    queryKey: [...failuresKey, "members", filter],
    queryFn: ({ pageParam, signal }) =>
      settled(
        api.GET("/api/failures", {
          params: { query: { ...known(filter), limit: 20, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });

const known = <T extends object>(filter: T): T =>
  Object.fromEntries(
    Object.entries(filter).filter(([, value]) => value !== null && value !== undefined),
  ) as T;

export const failureOne = (taskId: number) =>
  queryOptions({
    queryKey: [...failuresKey, "one", taskId],
    queryFn: ({ signal }) =>
      settled(
        api.GET("/api/failures/{task_id}", { params: { path: { task_id: taskId } }, signal }),
      ),
  });

// As text, never as a document: what was scraped must not run here.
export const snapshotText = (failureId: number, name: string) =>
  queryOptions({
    queryKey: [...failuresKey, "snapshot", failureId, name],
    queryFn: ({ signal }) =>
      settled<unknown>(
        api.GET("/api/failures/attempts/{failure_id}/snapshots/{name}", {
          params: { path: { failure_id: failureId, name } },
          parseAs: "text",
          signal,
        }),
      ).then(String),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const retryFailures = (body: Schemas["FailureSelection"]) =>
  settled(api.POST("/api/failures/retry", { body }));
export const discardFailures = (body: Schemas["DiscardSelection"]) =>
  settled(api.POST("/api/failures/discard", { body }));

export const runners = queryOptions({
  queryKey: runnersKey,
  queryFn: ({ signal }) =>
    settled(api.GET("/api/runners", { params: { query: { everyone: true, limit: 50 } }, signal })),
  refetchInterval: 10_000,
});

const runner = (id: number) => ({ params: { path: { runner_id: id } } });
export const drainRunner = (id: number) =>
  settled(api.POST("/api/runners/{runner_id}/drain", runner(id)));
export const resumeRunner = (id: number) =>
  settled(api.POST("/api/runners/{runner_id}/resume", runner(id)));

export const eventList = (filter: EventFilter) =>
  infiniteQueryOptions({
    queryKey: [...eventsKey, filter],
    queryFn: ({ pageParam, signal }) =>
      settled(
        api.GET("/api/events", {
          params: { query: { ...filter, limit: 100, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
