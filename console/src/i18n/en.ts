import { engine } from "./en/engine";
import { fleet } from "./en/fleet";
import { missions } from "./en/missions";
import { overview } from "./en/overview";
import { results } from "./en/results";
import { shell } from "./en/shell";

export const en = { ...shell, ...missions, ...overview, ...fleet, ...engine, ...results };
