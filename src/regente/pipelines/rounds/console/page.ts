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
  attention: {
    MATCHES_FAILED: {
      text: {
        en: "{count, plural, one {# match failed for good} other {# matches failed for good}}",
        "pt-BR":
          "{count, plural, one {# partida falhou definitivamente} other {# partidas falharam definitivamente}}",
      },
      path: "/results?of=rounds",
    },
    ROUNDS_FAILED: {
      text: {
        en: "{count, plural, one {# round whose page could not be read} other {# rounds whose page could not be read}}",
        "pt-BR":
          "{count, plural, one {# rodada cuja página não pôde ser lida} other {# rodadas cuja página não pôde ser lida}}",
      },
      path: "/results?of=rounds",
    },
  },
  ofBatch: (id) => `/results?of=rounds&batch=${id}`,
};
