// Results of the other pipelines: quotes, rounds, documents, embeddings.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type Quote = Schemas["Quote"];
export type QuoteDetail = Schemas["QuoteDetail"];
export type QuoteSource = Schemas["QuoteSource"];
export type QuoteLot = Schemas["QuoteLot"];
export type QuoteState = Quote["status"];
export type Round = Schemas["Round"];
export type RoundMatch = Schemas["RoundMatch"];
export type MatchDetail = Schemas["MatchDetail"];
export type Execution = Schemas["DocumentExecution"];
export type DocumentResult = Schemas["DocumentResult"];
export type DocumentState = DocumentResult["status"];

export const RESULT_KINDS = ["quotes", "rounds", "documents", "embeddings"] as const;
export type ResultKind = (typeof RESULT_KINDS)[number];

const KIND_OF: Record<string, ResultKind> = {
  quotes: "quotes",
  rounds: "rounds",
  matches: "rounds",
  documents: "documents",
  embeddings: "embeddings",
};

export const resultsKey = (kind: ResultKind) => ["results", kind] as const;

// The kinds of results that events may have changed. An event of a whole batch names no pipeline and
// may concern any kind.
export function kindsInEvents(
  events: readonly { pipeline: string | null; batch_id: number | null }[],
): Set<ResultKind> {
  return new Set(
    events.flatMap(({ pipeline, batch_id }): readonly ResultKind[] => {
      if (pipeline === null) return batch_id === null ? [] : RESULT_KINDS;
      const kind = KIND_OF[pipeline];
      return kind ? [kind] : [];
    }),
  );
}

// Path of the page with the results of a batch, or null for pipelines without one.
export function resultsPath({
  id,
  pipeline,
}: {
  id: number;
  pipeline: string | null;
}): string | null {
  switch (pipeline === null ? undefined : KIND_OF[pipeline]) {
    case "quotes":
      return `/results/lots/${id}`;
    case "documents":
      return `/results/executions/${id}`;
    case "rounds":
      return `/results?of=rounds&batch=${id}`;
    case "embeddings":
      return "/results?of=embeddings";
    default:
      return null;
  }
}

interface PageOf {
  next?: string | null;
}

const paged = {
  initialPageParam: null as string | null,
  getNextPageParam: (page: PageOf) => page.next ?? null,
};

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

export const embeddingStatsQuery = queryOptions({
  queryKey: [...resultsKey("embeddings"), "stats"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/embeddings/stats", { signal })),
});

export const searchTexts = (body: { text: string; model: string | null }) =>
  unwrap(api.POST("/api/embeddings/search", { body: { ...body, limit: 10 } }));
