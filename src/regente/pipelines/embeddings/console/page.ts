import type { BuiltinPage } from "@console/app/builtinPages";
import { lazy } from "react";

export const page: BuiltinPage = {
  name: "embeddings",
  title: { en: "Embeddings", "pt-BR": "Embeddings" },
  pipelines: ["embeddings"],
  Tab: lazy(async () => ({ default: (await import("./Embeddings")).Embeddings })),
  ofBatch: () => "/results?of=embeddings",
};
