import type { BuiltinPage } from "@console/app/builtinPages";
import { lazy } from "react";

export const page: BuiltinPage = {
  name: "rounds",
  title: { en: "Rounds", "pt-BR": "Rodadas" },
  pipelines: ["rounds", "matches"],
  Tab: lazy(async () => ({ default: (await import("./Rounds")).Rounds })),
  details: [
    {
      path: "/results/rounds/:id",
      Page: lazy(async () => ({ default: (await import("./Rounds")).RoundPage })),
    },
    {
      path: "/results/rounds/:id/:part",
      back: { href: (id) => `/results/rounds/${id}`, name: { en: "Round", "pt-BR": "Rodada" } },
      Page: lazy(async () => ({ default: (await import("./MatchPage")).MatchPage })),
    },
  ],
  ofBatch: (id) => `/results?of=rounds&batch=${id}`,
};
