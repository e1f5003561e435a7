// Calls with an unknown outcome, which wait for a person.
import { queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { unwrap } from "./problem";

export type Decision = Schemas["Decision"];

export const decisionsKey = ["decisions"] as const;
export const MOST_DECISIONS = 100;

export const decisionsQuery = queryOptions({
  queryKey: decisionsKey,
  queryFn: ({ signal }) =>
    unwrap(
      api.GET("/api/tasks/decisions", { params: { query: { limit: MOST_DECISIONS } }, signal }),
    ),
  refetchInterval: 15_000,
});

const place = ({ task_id, step, item }: Decision) => ({
  params: { path: { task_id } },
  body: { step, item, retry: false },
});

export function resolveByRetry(decision: Decision) {
  const { params, body } = place(decision);
  return unwrap(
    api.POST("/api/tasks/{task_id}/resolve", { params, body: { ...body, retry: true } }),
  );
}

// The result is sent as it was written: JavaScript would turn 1.0 into 1, and round long numbers.
export function resolveByResult(decision: Decision, json: string) {
  return unwrap(
    api.POST("/api/tasks/{task_id}/resolve", {
      ...place(decision),
      bodySerializer: (body) => `${JSON.stringify(body).slice(0, -1)},"result":${json}}`,
    }),
  );
}
