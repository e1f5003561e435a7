import { api } from "@console/api/client";
import { resultsKey } from "@console/api/pages";
import { unwrap } from "@console/api/problem";
import { queryOptions } from "@tanstack/react-query";

export const embeddingStatsQuery = queryOptions({
  queryKey: [...resultsKey("embeddings"), "stats"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/embeddings/stats", { signal })),
});

export const searchTexts = (body: { text: string; model: string | null }) =>
  unwrap(api.POST("/api/embeddings/search", { body: { ...body, limit: 10 } }));
