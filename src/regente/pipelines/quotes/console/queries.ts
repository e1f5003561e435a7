import { api, type Schemas } from "@console/api/client";
import { paged, resultsKey } from "@console/api/pages";
import { unwrap } from "@console/api/problem";
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

export type Quote = Schemas["Quote"];
export type QuoteDetail = Schemas["QuoteDetail"];
export type QuoteSource = Schemas["QuoteSource"];
export type QuoteLot = Schemas["QuoteLot"];
export type QuoteState = Quote["status"];

export const lotListQuery = infiniteQueryOptions({
  queryKey: [...resultsKey("quotes"), "lots"],
  queryFn: ({ pageParam, signal }) =>
    unwrap(
      api.GET("/api/quotes/lots", { params: { query: { limit: 10, cursor: pageParam } }, signal }),
    ),
  ...paged,
});

export const lotQuery = (id: number) =>
  queryOptions({
    queryKey: [...resultsKey("quotes"), "lot", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/quotes/lots/{lot_id}", { params: { path: { lot_id: id } }, signal })),
  });

export const quoteListQuery = (filter: { lot_id?: number; status?: QuoteState[] }) =>
  infiniteQueryOptions({
    queryKey: [...resultsKey("quotes"), "list", filter],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/quotes", {
          params: { query: { ...filter, limit: 50, cursor: pageParam } },
          signal,
        }),
      ),
    ...paged,
  });

export const quoteQuery = (id: number) =>
  queryOptions({
    queryKey: [...resultsKey("quotes"), "one", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/quotes/{quote_id}", { params: { path: { quote_id: id } }, signal })),
  });
