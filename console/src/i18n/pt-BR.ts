import type { Catalog } from ".";
import { engine } from "./pt-BR/engine";
import { fleet } from "./pt-BR/fleet";
import { missions } from "./pt-BR/missions";
import { overview } from "./pt-BR/overview";
import { results } from "./pt-BR/results";
import { shell } from "./pt-BR/shell";

export const ptBR: Catalog = {
  ...shell,
  ...missions,
  ...overview,
  ...fleet,
  ...engine,
  ...results,
};
