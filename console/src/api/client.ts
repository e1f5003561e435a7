import createClient, { type Middleware } from "openapi-fetch";
import { urlOf } from "../app/basePath";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

let csrfToken: string | null = null;

export const keepCsrfToken = (token: string | null): void => {
  csrfToken = token;
};

const csrf: Middleware = {
  onRequest({ request }) {
    if (csrfToken && request.method !== "GET") request.headers.set("x-csrf-token", csrfToken);
    return request;
  },
};

export const api = createClient<paths>({
  baseUrl: urlOf("").replace(/\/$/, ""),
  credentials: "same-origin",
});
api.use(csrf);
