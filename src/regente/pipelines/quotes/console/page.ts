import type { BuiltinPage } from "@console/app/builtinPages";
import { lazy } from "react";

export const page: BuiltinPage = {
  name: "quotes",
  title: { en: "Quotes", "pt-BR": "Cotações" },
  pipelines: ["quotes"],
  Tab: lazy(async () => ({ default: (await import("./Quotes")).Quotes })),
  details: [
    {
      path: "/results/lots/:id",
      Page: lazy(async () => ({ default: (await import("./Quotes")).LotPage })),
    },
    {
      path: "/results/quotes/:id",
      Page: lazy(async () => ({ default: (await import("./QuotePage")).QuotePage })),
    },
  ],
  ofBatch: (id) => `/results/lots/${id}`,
};
