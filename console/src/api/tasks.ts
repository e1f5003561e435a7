import { queryOptions } from "@tanstack/react-query";
import { api, type Schemas } from "./client";
import { missionKeys } from "./missions";
import { settled } from "./problem";

export type Step = Schemas["Step"];

// A mission is a task, by the same number: fresh when the mission is.
export const taskOne = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "task"],
    queryFn: ({ signal }) =>
      settled(api.GET("/api/tasks/{task_id}", { params: { path: { task_id: id } }, signal })),
  });

export const taskSteps = (id: number) =>
  queryOptions({
    queryKey: [...missionKeys.one(id), "steps"],
    queryFn: ({ signal }) =>
      settled(
        api.GET("/api/tasks/{task_id}/steps", {
          params: { path: { task_id: id }, query: { limit: 200 } },
          signal,
        }),
      ),
  });
