import { api, type Schemas } from "@console/api/client";
import { paged, resultsKey } from "@console/api/pages";
import { unwrap } from "@console/api/problem";
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

export type Round = Schemas["Round"];
export type RoundMatch = Schemas["RoundMatch"];
export type MatchDetail = Schemas["MatchDetail"];

export const roundListQuery = (filter: { batch_id?: number }) =>
  infiniteQueryOptions({
    queryKey: [...resultsKey("rounds"), "list", filter],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/rounds", {
          params: { query: { ...filter, limit: 50, cursor: pageParam } },
          signal,
        }),
      ),
    ...paged,
  });

const round = (id: number) => ({ params: { path: { round_id: id } } });

export const roundQuery = (id: number) =>
  queryOptions({
    queryKey: [...resultsKey("rounds"), "one", id],
    queryFn: ({ signal }) => unwrap(api.GET("/api/rounds/{round_id}", { ...round(id), signal })),
  });

export const matchQuery = (id: number, match: string) =>
  queryOptions({
    queryKey: [...resultsKey("rounds"), "one", id, match],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/rounds/{round_id}/matches/{match_id}", {
          params: { path: { round_id: id, match_id: match } },
          signal,
        }),
      ),
  });

export const retryFailedMatches = (id: number) =>
  unwrap(api.POST("/api/rounds/{round_id}/retry-failed", round(id)));
