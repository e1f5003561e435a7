import type { BuiltinPage } from "@console/app/builtinPages";
import { lazy } from "react";

export const page: BuiltinPage = {
  name: "documents",
  title: { en: "Documents", "pt-BR": "Documentos" },
  pipelines: ["documents"],
  Tab: lazy(async () => ({ default: (await import("./Documents")).Executions })),
  details: [
    {
      path: "/results/executions/:id",
      Page: lazy(async () => ({ default: (await import("./Documents")).ExecutionPage })),
    },
  ],
  ofBatch: (id) => `/results/executions/${id}`,
};
