import { queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { missionKeys } from "./missions";
import { unwrap } from "./problem";

export type Step = Schemas["Step"];

// A mission is a task with the same id; its keys are under the mission so that both are refreshed
// together.
export const taskQuery = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "task"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/tasks/{task_id}", { params: { path: { task_id: id } }, signal })),
  });

export const taskStepsQuery = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "steps"],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/tasks/{task_id}/steps", {
          params: { path: { task_id: id }, query: { limit: 200 } },
          signal,
        }),
      ),
  });
