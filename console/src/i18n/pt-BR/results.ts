import type { results as words } from "../en/results";

export const results: typeof words = {
  "results.tabs": "Pipelines",
  "results.see": "Ver resultados",
  "results.seeOf": "Ver resultados de {name}",
  "results.table": "Tabela: {name}",
  "results.share": "{part} de {all}",
  "results.created": "Criado em",
  "results.eta": "Tempo restante",
  "results.attempts": "Tentativas",
};
