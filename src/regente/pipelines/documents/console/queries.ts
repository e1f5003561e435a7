import { api, type Schemas } from "@console/api/client";
import { paged, resultsKey } from "@console/api/pages";
import { unwrap } from "@console/api/problem";
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

export type Execution = Schemas["DocumentExecution"];
export type DocumentResult = Schemas["DocumentResult"];
export type DocumentState = DocumentResult["status"];

export const executionListQuery = infiniteQueryOptions({
  queryKey: [...resultsKey("documents"), "executions"],
  queryFn: ({ pageParam, signal }) =>
    unwrap(
      api.GET("/api/documents/executions", {
        params: { query: { limit: 50, cursor: pageParam } },
        signal,
      }),
    ),
  ...paged,
});

const execution = (id: number) => ({ params: { path: { execution_id: id } } });

export const executionQuery = (id: number) =>
  queryOptions({
    queryKey: [...resultsKey("documents"), "one", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/documents/executions/{execution_id}", { ...execution(id), signal })),
  });

export const executionStatusQuery = (id: number) =>
  queryOptions({
    queryKey: [...resultsKey("documents"), "one", id, "standing"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/execucoes/{execution_id}/status-detalhado", { ...execution(id), signal })),
  });

export const documentListQuery = (id: number, statuses?: DocumentState[]) =>
  infiniteQueryOptions({
    queryKey: [...resultsKey("documents"), "list", id, statuses ?? "all"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/documents/executions/{execution_id}/documents", {
          params: {
            path: { execution_id: id },
            query: { ...(statuses ? { statuses } : {}), limit: 50, cursor: pageParam },
          },
          signal,
        }),
      ),
    ...paged,
  });
