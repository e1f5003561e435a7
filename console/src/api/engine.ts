// Batches, failures, runners and the audit log.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type Batch = Schemas["BatchInfo"];
export type BatchDetail = Schemas["BatchDetail"];
export type FailureGroup = Schemas["FailureGroup"];
export type Failure = Schemas["Failure"];
export type Runner = Schemas["RunnerInfo"];
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

export const batchListQuery = (status?: Batch["status"]) =>
  infiniteQueryOptions({
    queryKey: [...batchesKey, "list", status ?? "all"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
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

export const batchQuery = (id: number) =>
  queryOptions({
    queryKey: [...batchesKey, "one", id],
    queryFn: ({ signal }) => unwrap(api.GET("/api/batches/{batch_id}", { ...batch(id), signal })),
  });

export const resumeBatch = (id: number) =>
  unwrap(api.POST("/api/batches/{batch_id}/resume", batch(id)));
export const reprocessBatch = (id: number) =>
  unwrap(api.POST("/api/batches/{batch_id}/reprocess", batch(id)));
export const cancelBatch = (id: number) =>
  unwrap(api.POST("/api/batches/{batch_id}/cancel", batch(id)));

export const failureGroupsQuery = queryOptions({
  queryKey: [...failuresKey, "groups"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/failures/groups", { signal })),
});

export const failedTaskListQuery = (filter: Schemas["FailureFilter"]) =>
  infiniteQueryOptions({
    queryKey: [...failuresKey, "members", filter],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/failures", {
          params: { query: { ...withoutEmpty(filter), limit: 20, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });

const withoutEmpty = <T extends object>(filter: T): T =>
  Object.fromEntries(
    Object.entries(filter).filter(([, value]) => value !== null && value !== undefined),
  ) as T;

export const failureQuery = (taskId: number) =>
  queryOptions({
    queryKey: [...failuresKey, "one", taskId],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/failures/{task_id}", { params: { path: { task_id: taskId } }, signal })),
  });

// Fetched as text, because a scraped page must not run as a document.
export const snapshotQuery = (failureId: number, name: string) =>
  queryOptions({
    queryKey: [...failuresKey, "snapshot", failureId, name],
    queryFn: ({ signal }) =>
      unwrap<unknown>(
        api.GET("/api/failures/attempts/{failure_id}/snapshots/{name}", {
          params: { path: { failure_id: failureId, name } },
          parseAs: "text",
          signal,
        }),
      ).then(String),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const retryFailures = (body: Schemas["FailureSelection"]) =>
  unwrap(api.POST("/api/failures/retry", { body }));
export const discardFailures = (body: Schemas["DiscardSelection"]) =>
  unwrap(api.POST("/api/failures/discard", { body }));

export const runnersQuery = queryOptions({
  queryKey: runnersKey,
  queryFn: ({ signal }) =>
    unwrap(api.GET("/api/runners", { params: { query: { everyone: true, limit: 50 } }, signal })),
  refetchInterval: 10_000,
});

const runner = (id: number) => ({ params: { path: { runner_id: id } } });
export const drainRunner = (id: number) =>
  unwrap(api.POST("/api/runners/{runner_id}/drain", runner(id)));
export const resumeRunner = (id: number) =>
  unwrap(api.POST("/api/runners/{runner_id}/resume", runner(id)));

export const eventListQuery = (filter: EventFilter) =>
  infiniteQueryOptions({
    queryKey: [...eventsKey, filter],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/events", {
          params: { query: { ...filter, limit: 100, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
