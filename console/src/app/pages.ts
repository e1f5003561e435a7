import type { MessageId } from "../i18n";
import { BUILTIN_PAGES } from "./builtinPages";
import { isOn } from "./builtins";

interface Page {
  path: string;
  name: MessageId;
  letter: string;
  // The pipelines that it shows; without any it is always there.
  of?: readonly string[];
}

const ALL: Page[] = [
  { path: "/", name: "nav.overview", letter: "o" },
  { path: "/missions", name: "nav.missions", letter: "m", of: ["missions"] },
  { path: "/batches", name: "nav.batches", letter: "b" },
  { path: "/results", name: "nav.results", letter: "e", of: BUILTIN_PAGES.map(({ name }) => name) },
  { path: "/failures", name: "nav.failures", letter: "f" },
  { path: "/fleet", name: "nav.fleet", letter: "w", of: ["missions"] },
  { path: "/runners", name: "nav.runners", letter: "r" },
  { path: "/audit", name: "nav.audit", letter: "a" },
  { path: "/settings", name: "nav.settings", letter: "s" },
];

// Pages in the order of the navigation; g and the letter opens the page.
export const PAGES = ALL.filter(({ of }) => of === undefined || of.some(isOn));

export const isActive = (path: string, here: string): boolean =>
  path === "/" ? here === "/" : here.startsWith(path);
